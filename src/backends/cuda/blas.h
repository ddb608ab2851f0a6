// Matrix products through cuBLASLt, with a measured choice among its algorithms.
#pragma once

#include <cublasLt.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/artifact_store.h"
#include "backends/cuda/dynamic_library.h"
#include "backends/cuda/memory.h"
#include "base/dtype.h"

namespace tutti::cuda {

// c[m, n] = epilogue(a[m, k] b), row-major, over `batch` matrices that lie `*_stride` elements
// apart. b is [k, n], or [n, k] when it is transposed.
struct BlasShape {
  DType dtype = DType::kFloat32;  // f32, f64, f16, bf16; 16-bit ones accumulate in f32
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_b = false;
  std::int64_t batch = 1;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  // Bytes to which every matrix of the operands is aligned.
  std::uint32_t a_alignment = 16;
  std::uint32_t b_alignment = 16;
  std::uint32_t c_alignment = 16;
  bool has_bias = false;
  std::string activation;     // "", relu, gelu_tanh: what the library fuses
  bool has_residual = false;  // added before bias and activation

  auto operator<=>(const BlasShape&) const = default;
};

struct BlasAddresses {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;
};

// The library on one device. Thread-safe; outlives its products.
class Blas {
 public:
  // The store outlives it.
  static Result<std::unique_ptr<Blas>> create(int device, ArtifactStore& store);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  std::string version() const;

 private:
  friend class BlasProduct;
  struct Functions {
    decltype(&cublasLtCreate) create = nullptr;
    decltype(&cublasLtDestroy) destroy = nullptr;
    decltype(&cublasLtGetVersion) version = nullptr;
    decltype(&cublasLtGetStatusString) status_string = nullptr;
    decltype(&cublasLtMatmul) matmul = nullptr;
    decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
    decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
    decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
    decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
    decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  };
  // An algorithm that was measured to be the fastest for a shape on this card.
  struct Choice {
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace = 0;
  };

  explicit Blas(ArtifactStore& store) : store_(store) {}
  Status check(cublasStatus_t status, const char* call) const;
  Artifact artifact_of(const BlasShape& shape) const;
  // From memory or the store.
  std::optional<Choice> find_choice(const BlasShape& shape);

  std::shared_ptr<DynamicLibrary> library_;
  Functions f_;
  cublasLtHandle_t handle_ = nullptr;
  std::string card_;
  ArtifactStore& store_;
  std::mutex mutex_;
  std::map<BlasShape, Choice> chosen_;  // under mutex_
};

// One product. The first run times the candidates and keeps the fastest, in memory and on disk;
// other products of the same shape take the same one.
class BlasProduct {
 public:
  // UNIMPLEMENTED when the library has no algorithm for it.
  static Result<std::unique_ptr<BlasProduct>> create(Blas& blas, cudaStream_t stream,
                                                     const BlasShape& shape);
  ~BlasProduct();
  BlasProduct(const BlasProduct&) = delete;
  BlasProduct& operator=(const BlasProduct&) = delete;

  std::size_t workspace_bytes() const { return workspace_; }
  Status run(const BlasAddresses& at);

 private:
  BlasProduct(Blas& blas, cudaStream_t stream, const BlasShape& shape)
      : blas_(blas), stream_(stream), shape_(shape) {}
  Status describe();
  Status make_layout(std::int64_t rows, std::int64_t columns, std::int64_t stride,
                     cublasLtMatrixLayout_t* layout);
  Status find_candidates();
  Status run_with(const cublasLtMatmulAlgo_t& algorithm, const BlasAddresses& at);
  Status choose(const BlasAddresses& at);
  Result<float> time(const cublasLtMatmulAlgo_t& algorithm, const BlasAddresses& at, int runs);
  Status measure(const BlasAddresses& at);

  Blas& blas_;
  cudaStream_t stream_;
  const BlasShape shape_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t c_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates_;
  cublasLtMatmulAlgo_t algorithm_{};
  bool is_chosen_ = false;
  std::size_t workspace_ = 0;
  const void* bias_ = nullptr;  // as the description has it
};

}  // namespace tutti::cuda
