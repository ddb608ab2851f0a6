// A compiled kernel with its numbers: all but the addresses is fixed when it is made.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "backends/cuda/rank_context.h"

namespace tutti::cuda {

struct Grid {
  std::int64_t blocks = 1;
  int threads = 256;
  std::size_t shared_bytes = 0;  // dynamic
  std::int64_t blocks_y = 1;
};

class GeneratedKernel {
 public:
  // The source gets NUM_POINTERS and NUM_NUMBERS defined. Errors: those of the compiler.
  static Result<GeneratedKernel> create(RankContext& context, KernelSource source,
                                        std::size_t num_pointers, std::vector<std::int64_t> numbers,
                                        Grid grid);

  // On the rank's stream. As many addresses as it was made for. Allocates nothing.
  Status run(std::span<const void* const> addresses);
  Status run(std::initializer_list<const void*> addresses) {
    return run(std::span(addresses.begin(), addresses.size()));
  }

 private:
  GeneratedKernel() = default;
  cudaStream_t stream_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
  std::size_t num_pointers_ = 0;
  std::vector<std::uint64_t> words_;  // Params of kernels/prelude.cuh
  Grid grid_;
};

// Blocks for a loop over `count` items (FOR_EACH of the prelude).
Grid grid_for(const RankContext& context, std::int64_t count, int threads = 256);

// The type's name in kernels: f32, bf16, b8 for bool.
std::string type_name(DType dtype);
// Of the type that its elements are computed in.
std::string compute_name(DType dtype);

// Index arithmetic in 32 bits where all of `counts` are below 2^31.
bool needs_wide_index(std::initializer_list<std::int64_t> counts);
void define_index(bool is_wide, KernelSource* source);
// Fast elementary functions, where all results have 16 bits.
void define_math(std::span<const DType> results, KernelSource* source);
// What kernels divide by (divide() of the prelude).
std::int64_t divisor_word(std::int64_t divisor, bool is_wide);

}  // namespace tutti::cuda
