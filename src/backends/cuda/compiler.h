// Machine code of kernels: from a plan, from the cache, or compiled for a card with NVRTC.
#pragma once

#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cuda/artifact_store.h"
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

// Thread-safe. One a backend.
class KernelCompiler {
 public:
  // The store outlives it. Without the library NVRTC, only what the store has is to be had.
  static std::unique_ptr<KernelCompiler> create(ArtifactStore& store,
                                                const std::string& nvrtc = "libnvrtc.so.13");

  // NOT_FOUND when NVRTC is missing.
  const Status& has_nvrtc() const { return has_nvrtc_; }

  // Machine code for compute capability `arch` (90 for 9.0). Code of any version of NVRTC is taken
  // from plans, only this one's from disk. Errors: what the compiler says, with the source's entry;
  // UNIMPLEMENTED where it has no such target; NOT_FOUND for a kernel that nobody has and NVRTC is
  // missing.
  using Code = std::shared_ptr<const Artifact>;
  Result<Code> compile(const KernelSource& source, int arch);

  // Compiled (or found) and loaded; valid on every device of that capability, for ever.
  Result<cudaKernel_t> load(const KernelSource& source, int arch);

  std::string version() const;       // "NVRTC 13.0"
  std::size_t num_compiled() const;  // by NVRTC, neither found in memory nor in the store

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

  using Key = std::pair<std::uint64_t, std::uint64_t>;

  explicit KernelCompiler(ArtifactStore& store) : store_(store) {}
  Status open_nvrtc(const std::string& soname);
  Result<Code> find_or_compile(const std::string& text, const std::string& entry,
                               const std::string& target, const Hash128& key);
  // Whether `code` is what compile() gives; under mutex_.
  bool is_current(const Hash128& key, const Code& code) const;
  Result<cudaKernel_t> load_code(const Artifact& code, const std::string& entry);
  Result<std::string> run_compiler(const std::string& text, const std::string& entry,
                                   const std::string& target);

  std::shared_ptr<DynamicLibrary> library_;
  Functions nvrtc_;
  int major_ = 0;
  int minor_ = 0;
  ArtifactStore& store_;
  Status has_nvrtc_;

  mutable std::mutex mutex_;
  // Under mutex_.
  std::map<Key, std::shared_future<Result<Code>>> code_;  // made, or being made by some thread
  std::map<Key, cudaKernel_t> kernels_;
  std::size_t num_compiled_ = 0;
};

}  // namespace tutti::cuda
