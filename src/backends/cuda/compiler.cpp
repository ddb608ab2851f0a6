#include "backends/cuda/compiler.h"

#include "backends/cuda/check.h"

namespace tutti::cuda {
namespace {

std::pair<std::uint64_t, std::uint64_t> as_key(const Hash128& hash) {
  return {hash.high, hash.low};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// As NVRTC is told it.
std::string target_of(const KernelSource& source, int arch) {
  return str_cat("sm_", arch, source.needs_exact_arch ? "a" : "");
}

}  // namespace

std::string KernelSource::text() const {
  std::string text;
  for (const auto& [name, value] : defines) text += str_cat("#define ", name, " ", value, "\n");
  text += str_cat("#define KERNEL_NAME ", entry, "\n");
  text += kernel_file("prelude.cuh");
  for (const std::string_view file : files) text += kernel_file(file);
  return text + code;
}

Result<std::unique_ptr<KernelCompiler>> KernelCompiler::create() {
  std::unique_ptr<KernelCompiler> compiler(new KernelCompiler);
  TUTTI_ASSIGN_OR_RETURN(compiler->library_, DynamicLibrary::open("libnvrtc.so.13"));
  const DynamicLibrary& library = *compiler->library_;
  Functions& f = compiler->nvrtc_;
  TUTTI_RETURN_IF_ERROR(library.find("nvrtcVersion", &f.version));
  TUTTI_RETURN_IF_ERROR(library.find("nvrtcCreateProgram", &f.create));
  TUTTI_RETURN_IF_ERROR(library.find("nvrtcDestroyProgram", &f.destroy));
  TUTTI_RETURN_IF_ERROR(library.find("nvrtcCompileProgram", &f.compile));
  TUTTI_RETURN_IF_ERROR(library.find("nvrtcGetCUBINSize", &f.cubin_size));
  TUTTI_RETURN_IF_ERROR(library.find("nvrtcGetCUBIN", &f.cubin));
  TUTTI_RETURN_IF_ERROR(library.find("nvrtcGetProgramLogSize", &f.log_size));
  TUTTI_RETURN_IF_ERROR(library.find("nvrtcGetProgramLog", &f.log));
  TUTTI_RETURN_IF_ERROR(library.find("nvrtcGetErrorString", &f.error_string));
  f.version(&compiler->major_, &compiler->minor_);
  return compiler;
}

std::string KernelCompiler::version() const { return str_cat(major_, ".", minor_); }

std::size_t KernelCompiler::num_compiled() const {
  const std::lock_guard lock(mutex_);
  return num_compiled_;
}

Hash128 KernelCompiler::key_of(const std::string& text, const std::string& target) const {
  Hasher hasher;
  hasher.update(bytes_of(text));
  hasher.update(bytes_of(target));
  hasher.update(static_cast<std::uint64_t>(major_ * 1000 + minor_));
  return hasher.digest();
}

Result<std::string> KernelCompiler::run_compiler(const std::string& text, const std::string& entry,
                                                 const std::string& target) {
  nvrtcProgram program = nullptr;
  const std::string name = entry + ".cu";
  nvrtcResult result = nvrtc_.create(&program, text.c_str(), name.c_str(), 0, nullptr, nullptr);
  if (result != NVRTC_SUCCESS) {
    return internal_error("cuda: nvrtc: ", nvrtc_.error_string(result));
  }
  const std::string architecture = "--gpu-architecture=" + target;
  const char* options[] = {architecture.c_str(), "--std=c++17", "-lineinfo"};
  result = nvrtc_.compile(program, 3, options);
  std::string out;
  std::size_t size = 0;
  if (result != NVRTC_SUCCESS) {
    nvrtc_.log_size(program, &size);
    out.resize(size);
    nvrtc_.log(program, out.data());
    nvrtc_.destroy(&program);
    if (result == NVRTC_ERROR_INVALID_OPTION) {
      return unimplemented("cuda: NVRTC ", version(), " does not compile for ", target);
    }
    return internal_error("cuda: kernel ", entry, " does not compile for ", target, ": ", out);
  }
  nvrtc_.cubin_size(program, &size);
  out.resize(size);
  nvrtc_.cubin(program, out.data());
  nvrtc_.destroy(&program);
  return out;
}

Result<std::shared_ptr<const std::string>> KernelCompiler::compile(const KernelSource& source,
                                                                   int arch) {
  const std::string text = source.text();
  const std::string target = target_of(source, arch);
  const Hash128 key = key_of(text, target);
  {
    const std::lock_guard lock(mutex_);
    const auto found = code_.find(as_key(key));
    if (found != code_.end()) return found->second;
  }
  // Outside of the lock: ranks compile side by side. Two may make the same code; one is kept.
  std::string code = cache_.read(key, "cubin");
  const bool is_cached = !code.empty();
  if (!is_cached) {
    TUTTI_ASSIGN_OR_RETURN(code, run_compiler(text, source.entry, target));
    cache_.write(key, "cubin", code);
  }
  const std::lock_guard lock(mutex_);
  if (!is_cached) ++num_compiled_;
  return code_.emplace(as_key(key), std::make_shared<const std::string>(std::move(code)))
      .first->second;
}

Result<cudaKernel_t> KernelCompiler::load(const KernelSource& source, int arch) {
  const Hash128 key = key_of(source.text(), target_of(source, arch));
  {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(as_key(key));
    if (found != kernels_.end()) return found->second;
  }
  TUTTI_ASSIGN_OR_RETURN(const auto code, compile(source, arch));
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(as_key(key));
  if (found != kernels_.end()) return found->second;
  cudaLibrary_t library = nullptr;
  TUTTI_CUDA(cudaLibraryLoadData(&library, code->data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  cudaKernel_t kernel = nullptr;
  TUTTI_CUDA(cudaLibraryGetKernel(&kernel, library, source.entry.c_str()));
  kernels_.emplace(as_key(key), kernel);
  return kernel;
}

}  // namespace tutti::cuda
