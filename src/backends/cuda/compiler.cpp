#include "backends/cuda/compiler.h"

#include <chrono>
#include <optional>

#include "backends/cuda/check.h"

namespace tutti::cuda {
namespace {

std::pair<std::uint64_t, std::uint64_t> as_key(const Hash128& hash) {
  return {hash.high, hash.low};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

constexpr const char* kKind = "cubin";
constexpr const char* kOptions[] = {"--std=c++17", "-lineinfo"};

// In a plan: machine code is good for its architecture whoever has compiled it. On disk with the
// compiler's version, so that a new one is made use of.
Hash128 key_of(const std::string& text, const std::string& target,
               std::optional<int> compiler = std::nullopt) {
  Hasher hasher;
  hasher.update(bytes_of(text));
  for (const char* option : kOptions) hasher.update(bytes_of(option));
  hasher.update(bytes_of(target));
  if (compiler) hasher.update(static_cast<std::uint64_t>(*compiler));
  return hasher.digest();
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

std::unique_ptr<KernelCompiler> KernelCompiler::create(ArtifactStore& store,
                                                       const std::string& nvrtc) {
  std::unique_ptr<KernelCompiler> compiler(new KernelCompiler(store));
  compiler->has_nvrtc_ = compiler->open_nvrtc(nvrtc);
  return compiler;
}

Status KernelCompiler::open_nvrtc(const std::string& soname) {
  TUTTI_ASSIGN_OR_RETURN(library_, DynamicLibrary::open(soname));
  Functions& f = nvrtc_;
  TUTTI_RETURN_IF_ERROR(library_->find("nvrtcVersion", &f.version));
  TUTTI_RETURN_IF_ERROR(library_->find("nvrtcCreateProgram", &f.create));
  TUTTI_RETURN_IF_ERROR(library_->find("nvrtcDestroyProgram", &f.destroy));
  TUTTI_RETURN_IF_ERROR(library_->find("nvrtcCompileProgram", &f.compile));
  TUTTI_RETURN_IF_ERROR(library_->find("nvrtcGetCUBINSize", &f.cubin_size));
  TUTTI_RETURN_IF_ERROR(library_->find("nvrtcGetCUBIN", &f.cubin));
  TUTTI_RETURN_IF_ERROR(library_->find("nvrtcGetProgramLogSize", &f.log_size));
  TUTTI_RETURN_IF_ERROR(library_->find("nvrtcGetProgramLog", &f.log));
  TUTTI_RETURN_IF_ERROR(library_->find("nvrtcGetErrorString", &f.error_string));
  f.version(&major_, &minor_);
  return {};
}

std::string KernelCompiler::version() const {
  return has_nvrtc_.ok() ? str_cat("NVRTC ", major_, ".", minor_) : "no NVRTC";
}

std::size_t KernelCompiler::num_compiled() const {
  const std::lock_guard lock(mutex_);
  return num_compiled_;
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
  const char* options[] = {architecture.c_str(), kOptions[0], kOptions[1]};
  result = nvrtc_.compile(program, 3, options);
  std::string out;
  std::size_t size = 0;
  if (result != NVRTC_SUCCESS) {
    nvrtc_.log_size(program, &size);
    out.resize(size);
    nvrtc_.log(program, out.data());
    nvrtc_.destroy(&program);
    if (result == NVRTC_ERROR_INVALID_OPTION) {
      return unimplemented("cuda: ", version(), " does not compile for ", target);
    }
    return internal_error("cuda: kernel ", entry, " does not compile for ", target, ": ", out);
  }
  nvrtc_.cubin_size(program, &size);
  out.resize(size);
  nvrtc_.cubin(program, out.data());
  nvrtc_.destroy(&program);
  return out;
}

Result<KernelCompiler::Code> KernelCompiler::find_or_compile(const std::string& text,
                                                             const std::string& entry,
                                                             const std::string& target,
                                                             const Hash128& key) {
  Artifact artifact;
  artifact.backend = "cuda";
  artifact.kind = kKind;
  artifact.target = target;
  artifact.made_by = version();
  artifact.name = entry;
  artifact.key = key;
  const Hash128 disk_key = key_of(text, target, major_ * 1000 + minor_);
  if (Code found = store_.find(artifact, disk_key)) return found;
  if (!has_nvrtc_.ok()) {
    return not_found(
        "kernel ", entry, " for ", target,
        " is neither in the plan nor in the cache, and is not compiled: ", has_nvrtc_.message());
  }
  TUTTI_ASSIGN_OR_RETURN(artifact.content, run_compiler(text, entry, target));
  {
    const std::lock_guard lock(mutex_);
    ++num_compiled_;
  }
  return store_.add(std::move(artifact), disk_key);
}

Result<KernelCompiler::Code> KernelCompiler::compile(const KernelSource& source, int arch) {
  const std::string text = source.text();
  const std::string target = target_of(source, arch);
  const Hash128 key = key_of(text, target);
  std::promise<Result<Code>> promise;
  std::shared_future<Result<Code>> made;
  bool is_ours = false;
  {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = code_.try_emplace(as_key(key));
    if (is_new) place->second = promise.get_future().share();
    made = place->second;
    is_ours = is_new;
  }
  // Outside of the lock: ranks compile side by side, and wait for each other's where it is the
  // same.
  if (!is_ours) return made.get();
  Result<Code> code = find_or_compile(text, source.entry, target, key);
  promise.set_value(code);
  if (!code.ok()) {
    const std::lock_guard lock(mutex_);
    code_.erase(as_key(key));
  }
  return code;
}

bool KernelCompiler::is_current(const Hash128& key, const Code& code) const {
  const auto known = code_.find(as_key(key));
  if (known == code_.end()) return false;
  if (known->second.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
  const Result<Code>& made = known->second.get();
  return made.ok() && *made == code;
}

Result<cudaKernel_t> KernelCompiler::load_code(const Artifact& code, const std::string& entry) {
  cudaLibrary_t library = nullptr;
  TUTTI_CUDA(
      cudaLibraryLoadData(&library, code.content.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  cudaKernel_t kernel = nullptr;
  TUTTI_CUDA(cudaLibraryGetKernel(&kernel, library, entry.c_str()));
  return kernel;
}

Result<cudaKernel_t> KernelCompiler::load(const KernelSource& source, int arch) {
  const Hash128 key = key_of(source.text(), target_of(source, arch));
  {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(as_key(key));
    if (found != kernels_.end()) return found->second;
  }
  TUTTI_ASSIGN_OR_RETURN(Code code, compile(source, arch));
  std::unique_lock lock(mutex_);
  const auto found = kernels_.find(as_key(key));
  if (found != kernels_.end()) return found->second;
  Result<cudaKernel_t> kernel = load_code(*code, source.entry);
  // A plan's code that the driver does not take is as good as none. Another rank may have found out
  // before.
  if (!kernel.ok()) {
    if (store_.withdraw(kKind, key)) code_.erase(as_key(key));
    if (!is_current(key, code)) {
      lock.unlock();
      return load(source, arch);
    }
  }
  if (kernel.ok()) kernels_.emplace(as_key(key), *kernel);
  return kernel;
}

}  // namespace tutti::cuda
