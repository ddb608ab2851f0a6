#include "backends/cuda/blas.h"

#include <algorithm>

namespace tutti::cuda {
namespace {

constexpr std::size_t kMaxWorkspace = std::size_t{32} << 20;
constexpr int kMaxCandidates = 8;
constexpr int kTimedRuns = 3;

struct Types {
  cudaDataType_t data;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};

Types types_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return {CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
    case DType::kFloat16: return {CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::kBFloat16: return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    default: return {CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
  }
}

cublasLtEpilogue_t epilogue_of(const BlasShape& shape) {
  if (shape.activation == "relu") {
    return shape.has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  }
  if (shape.activation == "gelu_tanh") {
    return shape.has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  }
  return shape.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// The library refuses a workspace that is aligned to a cache line only, as arenas are.
constexpr std::uintptr_t kWorkspaceAlignment = 256;

void* aligned(void* workspace) {
  const auto at = reinterpret_cast<std::uintptr_t>(workspace);
  const std::uintptr_t up = (at + kWorkspaceAlignment - 1) & ~(kWorkspaceAlignment - 1);
  return reinterpret_cast<void*>(up);
}

}  // namespace

Result<std::unique_ptr<Blas>> Blas::create(int device) {
  std::unique_ptr<Blas> blas(new Blas);
  TUTTI_ASSIGN_OR_RETURN(blas->library_, DynamicLibrary::open("libcublasLt.so.13"));
  const DynamicLibrary& library = *blas->library_;
  Functions& f = blas->f_;
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtCreate", &f.create));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtDestroy", &f.destroy));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtGetVersion", &f.version));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtGetStatusString", &f.status_string));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatmul", &f.matmul));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatmulDescCreate", &f.desc_create));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatmulDescDestroy", &f.desc_destroy));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatmulDescSetAttribute", &f.desc_set));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatrixLayoutCreate", &f.layout_create));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatrixLayoutDestroy", &f.layout_destroy));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatrixLayoutSetAttribute", &f.layout_set));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatmulPreferenceCreate", &f.preference_create));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatmulPreferenceDestroy", &f.preference_destroy));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatmulPreferenceSetAttribute", &f.preference_set));
  TUTTI_RETURN_IF_ERROR(library.find("cublasLtMatmulAlgoGetHeuristic", &f.heuristic));
  TUTTI_RETURN_IF_ERROR(activate(device));
  TUTTI_RETURN_IF_ERROR(blas->check(f.create(&blas->handle_), "cublasLtCreate"));
  return blas;
}

Blas::~Blas() {
  if (handle_ != nullptr) f_.destroy(handle_);
}

std::string Blas::version() const {
  const std::size_t number = f_.version();
  return str_cat(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

Status Blas::check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  const StatusCode code = status == CUBLAS_STATUS_NOT_SUPPORTED  ? StatusCode::kUnimplemented
                          : status == CUBLAS_STATUS_ALLOC_FAILED ? StatusCode::kResourceExhausted
                                                                 : StatusCode::kInternal;
  return Status(code, str_cat("cuda: ", call, ": ", f_.status_string(status)));
}

Result<std::unique_ptr<BlasProduct>> BlasProduct::create(Blas& blas, cudaStream_t stream,
                                                         const BlasShape& shape) {
  std::unique_ptr<BlasProduct> product(new BlasProduct(blas, stream, shape));
  TUTTI_RETURN_IF_ERROR(product->describe());
  TUTTI_RETURN_IF_ERROR(product->find_candidates());
  return product;
}

BlasProduct::~BlasProduct() {
  if (desc_ != nullptr) blas_.f_.desc_destroy(desc_);
  for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
    if (layout != nullptr) blas_.f_.layout_destroy(layout);
  }
}

Status BlasProduct::make_layout(std::int64_t rows, std::int64_t columns, std::int64_t stride,
                                cublasLtMatrixLayout_t* layout) {
  TUTTI_RETURN_IF_ERROR(blas_.check(
      blas_.f_.layout_create(layout, types_of(shape_.dtype).data, static_cast<std::uint64_t>(rows),
                             static_cast<std::uint64_t>(columns), rows),
      "cublasLtMatrixLayoutCreate"));
  if (shape_.batch == 1) return {};
  const auto batch = static_cast<std::int32_t>(shape_.batch);
  TUTTI_RETURN_IF_ERROR(blas_.check(
      blas_.f_.layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
      "cublasLtMatrixLayoutSetAttribute"));
  return blas_.check(blas_.f_.layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                         &stride, sizeof stride),
                     "cublasLtMatrixLayoutSetAttribute");
}

// The library is column-major, in which our matrices are transposed: c' [n, m] = b' [n, k] a' [k,
// m].
Status BlasProduct::describe() {
  const Types types = types_of(shape_.dtype);
  TUTTI_RETURN_IF_ERROR(
      blas_.check(blas_.f_.desc_create(&desc_, types.compute, types.scale), "cublasLtMatmulDesc"));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return blas_.check(blas_.f_.desc_set(desc_, attribute, &value, sizeof value),
                       "cublasLtMatmulDescSetAttribute");
  };
  const cublasOperation_t operation = shape_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  TUTTI_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, operation));
  TUTTI_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(shape_)));
  TUTTI_RETURN_IF_ERROR(shape_.transpose_b ? make_layout(shape_.k, shape_.n, shape_.b_stride, &b_)
                                           : make_layout(shape_.n, shape_.k, shape_.b_stride, &b_));
  TUTTI_RETURN_IF_ERROR(make_layout(shape_.k, shape_.m, shape_.a_stride, &a_));
  return make_layout(shape_.n, shape_.m, shape_.c_stride, &c_);
}

Status BlasProduct::find_candidates() {
  cublasLtMatmulPreference_t preference = nullptr;
  TUTTI_RETURN_IF_ERROR(
      blas_.check(blas_.f_.preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
  (void)blas_.f_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                &kMaxWorkspace, sizeof kMaxWorkspace);
  const std::uint32_t a = shape_.a_alignment;
  const std::uint32_t b = shape_.b_alignment;
  const std::uint32_t c = shape_.c_alignment;
  (void)blas_.f_.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b,
                                sizeof b);
  (void)blas_.f_.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a,
                                sizeof a);
  (void)blas_.f_.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c,
                                sizeof c);
  (void)blas_.f_.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c,
                                sizeof c);
  candidates_.resize(kMaxCandidates);
  int found = 0;
  const cublasStatus_t status = blas_.f_.heuristic(blas_.handle_, desc_, b_, a_, c_, c_, preference,
                                                   kMaxCandidates, candidates_.data(), &found);
  blas_.f_.preference_destroy(preference);
  candidates_.resize(static_cast<std::size_t>(std::max(found, 0)));
  if (status != CUBLAS_STATUS_SUCCESS || candidates_.empty()) {
    return unimplemented("cuda: cublasLt has no algorithm for [", shape_.m, ", ", shape_.k, "] x [",
                         shape_.k, ", ", shape_.n, "] of ", dtype_name(shape_.dtype));
  }
  for (const auto& candidate : candidates_) {
    workspace_ = std::max(workspace_, candidate.workspaceSize);
  }
  return {};
}

Status BlasProduct::run_with(const cublasLtMatmulAlgo_t& algorithm, const BlasAddresses& at) {
  const float one = 1;
  const float beta = shape_.has_residual ? 1.0F : 0.0F;
  const double wide_one = 1;
  const double wide_beta = shape_.has_residual ? 1.0 : 0.0;
  const bool is_wide = shape_.dtype == DType::kFloat64;
  const void* alpha = is_wide ? static_cast<const void*>(&wide_one) : &one;
  const void* scale = is_wide ? static_cast<const void*>(&wide_beta) : &beta;
  if (shape_.has_bias && bias_ != at.bias) {
    TUTTI_RETURN_IF_ERROR(blas_.check(
        blas_.f_.desc_set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at.bias, sizeof at.bias),
        "cublasLtMatmulDescSetAttribute"));
    bias_ = at.bias;
  }
  return blas_.check(blas_.f_.matmul(blas_.handle_, desc_, alpha, at.b, b_, at.a, a_, scale,
                                     shape_.has_residual ? at.residual : at.c, c_, at.c, c_,
                                     &algorithm, aligned(at.workspace), workspace_, stream_),
                     "cublasLtMatmul");
}

std::size_t BlasProduct::workspace_bytes() const {
  return workspace_ == 0 ? 0 : workspace_ + kWorkspaceAlignment;
}

// Under the library's lock, so that two ranks do not time at once.
Status BlasProduct::choose(const BlasAddresses& at) {
  const std::lock_guard lock(blas_.mutex_);
  const auto known = blas_.chosen_.find(shape_);
  const bool is_known = known != blas_.chosen_.end();
  if (is_known || candidates_.size() == 1) {
    algorithm_ = is_known ? known->second : candidates_.front().algo;
    is_chosen_ = true;
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(const auto begin, Event::create(true));
  TUTTI_ASSIGN_OR_RETURN(const auto end, Event::create(true));
  float best = 0;
  Status failed;
  for (const auto& candidate : candidates_) {
    const Status warm_up = run_with(candidate.algo, at);
    bool works = warm_up.ok();
    if (!works) failed = warm_up;
    TUTTI_CUDA(cudaEventRecord(begin->get(), stream_));
    for (int i = 0; works && i < kTimedRuns; ++i) works = run_with(candidate.algo, at).ok();
    TUTTI_CUDA(cudaEventRecord(end->get(), stream_));
    TUTTI_RETURN_IF_ERROR(wait_for(end->get()));
    float milliseconds = 0;
    TUTTI_CUDA(cudaEventElapsedTime(&milliseconds, begin->get(), end->get()));
    if (!works || (is_chosen_ && milliseconds >= best)) continue;
    best = milliseconds;
    algorithm_ = candidate.algo;
    is_chosen_ = true;
  }
  if (!is_chosen_) return failed.with_context("no algorithm of cublasLt runs");
  blas_.chosen_.emplace(shape_, algorithm_);
  return {};
}

Status BlasProduct::run(const BlasAddresses& at) {
  if (!is_chosen_) TUTTI_RETURN_IF_ERROR(choose(at));
  return run_with(algorithm_, at);
}

}  // namespace tutti::cuda
