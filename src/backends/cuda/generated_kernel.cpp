#include "backends/cuda/generated_kernel.h"

#include <algorithm>

namespace tutti::cuda {

Result<GeneratedKernel> GeneratedKernel::create(RankContext& context, KernelSource source,
                                                std::size_t num_pointers,
                                                std::vector<std::int64_t> numbers, Grid grid) {
  const std::size_t num_numbers = std::max<std::size_t>(numbers.size(), 1);
  numbers.resize(num_numbers);
  source.defines.emplace_back("NUM_POINTERS", std::to_string(num_pointers));
  source.defines.emplace_back("NUM_NUMBERS", std::to_string(num_numbers));
  GeneratedKernel made;
  made.stream_ = context.stream;
  made.num_pointers_ = num_pointers;
  made.words_.resize(num_pointers + num_numbers);
  for (std::size_t i = 0; i < num_numbers; ++i) {
    made.words_[num_pointers + i] = static_cast<std::uint64_t>(numbers[i]);
  }
  made.grid_ = grid;
  if (context.is_dry) {
    TUTTI_RETURN_IF_ERROR(context.compiler->compile(source, context.arch));
    return made;
  }
  TUTTI_ASSIGN_OR_RETURN(made.kernel_, context.compiler->load(source, context.arch));
  if (grid.shared_bytes > (48 << 10)) {
    TUTTI_CUDA(
        cudaKernelSetAttributeForDevice(made.kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(grid.shared_bytes), context.device));
  }
  return made;
}

Status GeneratedKernel::run(std::span<const void* const> addresses) {
  if (addresses.size() != num_pointers_ || kernel_ == nullptr) {
    return internal_error("a kernel for ", num_pointers_, " addresses is given ", addresses.size());
  }
  for (std::size_t i = 0; i < num_pointers_; ++i) {
    words_[i] = reinterpret_cast<std::uint64_t>(addresses[i]);
  }
  void* arguments[] = {words_.data()};
  const dim3 blocks(static_cast<unsigned>(std::max<std::int64_t>(grid_.blocks, 1)),
                    static_cast<unsigned>(std::max<std::int64_t>(grid_.blocks_y, 1)));
  return to_status(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), blocks,
                                    dim3(static_cast<unsigned>(grid_.threads)), arguments,
                                    grid_.shared_bytes, stream_),
                   "cudaLaunchKernel");
}

Grid grid_for(const RankContext& context, std::int64_t count, int threads) {
  const std::int64_t most = std::int64_t{context.multiprocessors} * 16;
  Grid grid;
  grid.threads = threads;
  grid.blocks = std::clamp<std::int64_t>((count + threads - 1) / threads, 1, most);
  return grid;
}

std::string type_name(DType dtype) {
  return dtype == DType::kBool ? "b8" : std::string(dtype_name(dtype));
}

std::string compute_name(DType dtype) {
  const bool is_narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  return is_narrow ? "f32" : type_name(dtype);
}

bool needs_wide_index(std::initializer_list<std::int64_t> counts) {
  return std::any_of(counts.begin(), counts.end(),
                     [](std::int64_t count) { return count >= (std::int64_t{1} << 31); });
}

void define_index(bool is_wide, KernelSource* source) {
  source->defines.emplace_back("index_t", is_wide ? "u64" : "u32");
}

void define_math(std::span<const DType> results, KernelSource* source) {
  const bool is_narrow = std::all_of(results.begin(), results.end(), [](DType dtype) {
    return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  });
  if (is_narrow) source->defines.emplace_back("FAST_MATH", "");
}

std::int64_t divisor_word(std::int64_t divisor, bool is_wide) {
  const auto d = static_cast<std::uint64_t>(std::max<std::int64_t>(divisor, 1));
  if (is_wide) return static_cast<std::int64_t>(d);
  std::uint64_t shift = 0;
  while ((std::uint64_t{1} << shift) < d) ++shift;
  const std::uint64_t factor =
      ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - d)) / d + 1;
  return static_cast<std::int64_t>((factor & 0xffffffffU) | (shift << 32));
}

Result<std::shared_ptr<DeviceMemory>> RankContext::place(const void* host, std::size_t bytes) {
  if (is_dry) return std::shared_ptr<DeviceMemory>();
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                         DeviceMemory::allocate(device, bytes));
  TUTTI_RETURN_IF_ERROR(staging->upload(stream, memory->data(), host, bytes));
  return std::shared_ptr<DeviceMemory>(std::move(memory));
}

}  // namespace tutti::cuda
