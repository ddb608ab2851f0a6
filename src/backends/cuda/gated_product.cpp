#include "backends/cuda/gated_product.h"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "backends/cuda/generated_kernel.h"

namespace tutti::cuda {
namespace {

// Those of kernels/gated_product.cuh.
constexpr std::int64_t kRows = 128;
constexpr std::int64_t kColumns = 128;
constexpr std::int64_t kDepth = 64;
constexpr std::int64_t kBoxColumns = 64;
constexpr std::size_t kStages = 4;
constexpr std::size_t kSharedBytes =
    kStages * static_cast<std::size_t>((kRows + 2 * kColumns) * kDepth * 2) + 1024;
constexpr unsigned kThreads = 384;

struct alignas(64) ProductParams {
  CUtensorMap a, g, u;
  void* y;
  std::int64_t m, n, k;
};

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

Result<EncodeTiled> find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TUTTI_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                              cudaEnableDefault, &found));
  if (function == nullptr || found != cudaDriverEntryPointSuccess) {
    return unimplemented("cuda: the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<EncodeTiled>(function);
}

class HopperGatedProduct final : public GatedProduct {
 public:
  HopperGatedProduct(const GatedShape& shape, cudaStream_t stream, cudaKernel_t kernel,
                     EncodeTiled encode, unsigned blocks)
      : shape_(shape), stream_(stream), kernel_(kernel), encode_(encode), blocks_(blocks) {}

  Status run(const void* a, const void* g, const void* u, void* y) override {
    if (std::array<const void*, 3> addresses = {a, g, u}; addresses != mapped_) {
      TUTTI_RETURN_IF_ERROR(map(a, shape_.m, shape_.k, kRows, &params_.a));
      for (const auto& [weight, out] : {std::pair{g, &params_.g}, std::pair{u, &params_.u}}) {
        TUTTI_RETURN_IF_ERROR(shape_.is_transposed ? map(weight, shape_.n, shape_.k, kColumns, out)
                                                   : map(weight, shape_.k, shape_.n, kDepth, out));
      }
      mapped_ = addresses;
    }
    params_.y = y;
    params_.m = shape_.m;
    params_.n = shape_.n;
    params_.k = shape_.k;
    void* arguments[] = {&params_};
    return to_status(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), dim3(blocks_),
                                      dim3(kThreads), arguments, kSharedBytes, stream_),
                     "cudaLaunchKernel");
  }

 private:
  // A row-major matrix that is read in boxes of 64 elements of its rows.
  Status map(const void* data, std::int64_t rows, std::int64_t columns, std::int64_t box_rows,
             CUtensorMap* out) const {
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
    const cuuint64_t strides[] = {static_cast<cuuint64_t>(columns) * 2};
    const cuuint32_t box[] = {static_cast<cuuint32_t>(kBoxColumns),
                              static_cast<cuuint32_t>(box_rows)};
    const cuuint32_t steps[] = {1, 1};
    const CUresult result =
        encode_(out,
                shape_.dtype == DType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                2, const_cast<void*>(data), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS) return {};
    return internal_error("cuda: cuTensorMapEncodeTiled: error ", static_cast<int>(result),
                          " for [", rows, ", ", columns, "]");
  }

  const GatedShape shape_;
  cudaStream_t stream_;
  cudaKernel_t kernel_;
  EncodeTiled encode_;
  unsigned blocks_;
  ProductParams params_{};
  std::array<const void*, 3> mapped_{};
};

// Without a device, for tests.
class DryGatedProduct final : public GatedProduct {
 public:
  Status run(const void*, const void*, const void*, void*) override {
    return internal_error("there is no device");
  }
};

Status check(const RankContext& context, const GatedShape& shape) {
  if (context.arch != 90 || context.shared_bytes < kSharedBytes) {
    return unimplemented("not on compute capability ", context.arch / 10, ".", context.arch % 10);
  }
  if (shape.dtype != DType::kBFloat16 && shape.dtype != DType::kFloat16) {
    return unimplemented("products of ", dtype_name(shape.dtype));
  }
  const std::int64_t most = std::int64_t{1} << 30;
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0 || shape.n % kColumns != 0 || shape.k % 8 != 0 ||
      shape.m > most || shape.n > most || shape.k > most) {
    return unimplemented("[", shape.m, ", ", shape.k, "] x [", shape.k, ", ", shape.n, "]");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<GatedProduct>> GatedProduct::create(RankContext& context,
                                                           const GatedShape& shape,
                                                           const std::string& combine) {
  TUTTI_RETURN_IF_ERROR(check(context, shape));
  KernelSource source;
  source.entry = "gated_product";
  source.files = {"pointwise.cuh", "gated_product.cuh"};
  source.arch_suffix = "a";
  source.defines.emplace_back("NUM_POINTERS", "1");
  source.defines.emplace_back("NUM_NUMBERS", "1");
  source.defines.emplace_back("T", type_name(shape.dtype));
  define_math({&shape.dtype, 1}, &source);
  source.defines.emplace_back("WGMMA_TYPE",
                              shape.dtype == DType::kFloat16 ? "\"f16\"" : "\"bf16\"");
  source.defines.emplace_back("IS_TRANSPOSED", shape.is_transposed ? "1" : "0");
  source.code =
      str_cat("__device__ __forceinline__ f32 combine(f32 x0, f32 x1) {\n", combine, "}\n");
  if (context.is_dry) {
    TUTTI_RETURN_IF_ERROR(context.compiler->compile(source, context.arch));
    return std::unique_ptr<GatedProduct>(std::make_unique<DryGatedProduct>());
  }
  TUTTI_ASSIGN_OR_RETURN(const EncodeTiled encode, find_encoder());
  TUTTI_ASSIGN_OR_RETURN(const cudaKernel_t kernel, context.compiler->load(source, context.arch));
  TUTTI_CUDA(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(kSharedBytes), context.device));
  const std::int64_t tiles = (shape.m + 2 * kRows - 1) / (2 * kRows) * 2 * (shape.n / kColumns);
  const std::int64_t blocks = std::min<std::int64_t>(tiles, context.multiprocessors / 2 * 2);
  return std::unique_ptr<GatedProduct>(std::make_unique<HopperGatedProduct>(
      shape, context.stream, kernel, encode, static_cast<unsigned>(blocks)));
}

}  // namespace tutti::cuda
