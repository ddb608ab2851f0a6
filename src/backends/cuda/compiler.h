// Compiles kernels for a card with NVRTC and keeps the machine code, in memory and on disk.
#pragma once

#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cuda/disk_cache.h"
#include "backends/cuda/dynamic_library.h"
#include "base/hash.h"

namespace tutti::cuda {

// A translation unit: definitions, then files of kernels/ by name, then code of its own.
struct KernelSource {
  std::string entry;  // name of the kernel
  std::vector<std::pair<std::string, std::string>> defines;
  std::vector<std::string_view> files;  // after prelude.cuh, which is always first
  std::string code;
  // For this architecture alone and not for later ones of its family (sm_90a).
  bool needs_exact_arch = false;

  std::string text() const;
};

// The text of a file of kernels/, built into the library; empty when there is none.
std::string_view kernel_file(std::string_view name);

// Thread-safe. One a process.
class KernelCompiler {
 public:
  // Errors: NVRTC is missing.
  static Result<std::unique_ptr<KernelCompiler>> create();

  // Machine code for compute capability `arch` (90 for 9.0). Errors: what the compiler says, with
  // the source's entry; UNIMPLEMENTED where it has no such target.
  Result<std::shared_ptr<const std::string>> compile(const KernelSource& source, int arch);

  // Compiled (or cached) and loaded; valid on every device of that capability, for ever.
  Result<cudaKernel_t> load(const KernelSource& source, int arch);

  std::string version() const;
  std::size_t num_compiled() const;  // by NVRTC, neither found in memory nor on disk

 private:
  struct Functions {
    decltype(&nvrtcVersion) version = nullptr;
    decltype(&nvrtcCreateProgram) create = nullptr;
    decltype(&nvrtcDestroyProgram) destroy = nullptr;
    decltype(&nvrtcCompileProgram) compile = nullptr;
    decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
    decltype(&nvrtcGetCUBIN) cubin = nullptr;
    decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
    decltype(&nvrtcGetProgramLog) log = nullptr;
    decltype(&nvrtcGetErrorString) error_string = nullptr;
  };

  KernelCompiler() = default;
  Hash128 key_of(const std::string& text, const std::string& target) const;
  Result<std::string> run_compiler(const std::string& text, const std::string& entry,
                                   const std::string& target);

  std::shared_ptr<DynamicLibrary> library_;
  Functions nvrtc_;
  int major_ = 0;
  int minor_ = 0;
  DiskCache cache_;

  mutable std::mutex mutex_;
  // Under mutex_.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::shared_ptr<const std::string>> code_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, cudaKernel_t> kernels_;
  std::size_t num_compiled_ = 0;
};

}  // namespace tutti::cuda
