#include "launch_log.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "kernels.h"

namespace tutti::cuda_emulator {

void log_launch(const LoadedKernel& kernel, const GridShape& shape,
                const std::vector<std::byte>& parameters) {
  static std::FILE* const kFile = [] {
    const char* path = std::getenv("TUTTI_CUDA_EMULATOR_LOG");
    return path == nullptr ? nullptr : std::fopen(path, "a");
  }();
  if (kFile == nullptr) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::fprintf(kFile, "%s %s %ux%u %u %zu", kernel.name.c_str(),
               std::filesystem::path(kernel.code).stem().c_str(), shape.blocks.x, shape.blocks.y,
               shape.threads.x, shape.shared_bytes);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= parameters.size();
       at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, parameters.data() + at, sizeof word);
    if (at / sizeof word < kernel.facts.pointers) {
      std::fprintf(kFile, " %s", word == 0 ? "-" : "p");
    } else {
      std::fprintf(kFile, " %llx", static_cast<unsigned long long>(word));
    }
  }
  std::fprintf(kFile, "\n");
  std::fflush(kFile);
}

}  // namespace tutti::cuda_emulator
