#include "backends/cuda/blas.h"

#include <algorithm>
#include <cstring>

namespace tutti::cuda {
namespace {

constexpr std::size_t kMaxWorkspace = std::size_t{64} << 20;
constexpr int kMaxCandidates = 24;
// Candidates that are timed once more, each for so long that the card settles at the clock that its
// power limit leaves for it: what is fastest on a cold card need not be under load.
constexpr std::size_t kFinalists = 4;
constexpr float kSettledMilliseconds = 120;
constexpr float kMostRuns = 400;

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

}  // namespace

Result<std::unique_ptr<Blas>> Blas::create(int device, ArtifactStore& store) {
  std::unique_ptr<Blas> blas(new Blas(store));
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
  cudaDeviceProp properties{};
  TUTTI_CUDA(cudaGetDeviceProperties(&properties, device));
  blas->card_ = str_cat(properties.name, " ", properties.multiProcessorCount);
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

// Choices hold for the library's version, the card, and everything that the shape says.
Artifact Blas::artifact_of(const BlasShape& s) const {
  const std::string text =
      str_cat("product-2 ", version(), " ", card_, " ", kMaxWorkspace, " ", dtype_name(s.dtype),
              " ", s.m, " ", s.n, " ", s.k, " ", s.transpose_b, " ", s.batch, " ", s.a_stride, " ",
              s.b_stride, " ", s.c_stride, " ", s.a_alignment, " ", s.b_alignment, " ",
              s.c_alignment, " ", s.has_bias, " ", s.activation, " ", s.has_residual);
  const Hash128 key = hash_bytes(std::as_bytes(std::span(text.data(), text.size())));
  return {"cuda", "product", str_cat(card_, ", cuBLASLt ", version()), "", text, key, ""};
}

std::optional<Blas::Choice> Blas::find_choice(const BlasShape& shape) {
  const std::lock_guard lock(mutex_);
  if (const auto known = chosen_.find(shape); known != chosen_.end()) return known->second;
  const auto kept = store_.find(artifact_of(shape));
  Choice choice;
  if (kept == nullptr || kept->content.size() != sizeof choice) return std::nullopt;
  std::memcpy(&choice, kept->content.data(), sizeof choice);
  if (choice.workspace > kMaxWorkspace) return std::nullopt;
  chosen_.emplace(shape, choice);
  return choice;
}

Result<std::unique_ptr<BlasProduct>> BlasProduct::create(Blas& blas, cudaStream_t stream,
                                                         const BlasShape& shape) {
  std::unique_ptr<BlasProduct> product(new BlasProduct(blas, stream, shape));
  TUTTI_RETURN_IF_ERROR(product->describe());
  if (const auto choice = blas.find_choice(shape)) {
    product->algorithm_ = choice->algorithm;
    product->workspace_ = choice->workspace;
    product->is_chosen_ = true;
    return product;
  }
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
  // Parts of a sum are added up in the type that it is computed in, never rounded to 16 bits.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  (void)blas_.f_.preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                sizeof reductions);
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
                                     &algorithm, at.workspace, workspace_, stream_),
                     "cublasLtMatmul");
}

Result<float> BlasProduct::time(const cublasLtMatmulAlgo_t& algorithm, const BlasAddresses& at,
                                int runs) {
  TUTTI_ASSIGN_OR_RETURN(const auto begin, Event::create(true));
  TUTTI_ASSIGN_OR_RETURN(const auto end, Event::create(true));
  TUTTI_CUDA(cudaEventRecord(begin->get(), stream_));
  for (int i = 0; i < runs; ++i) TUTTI_RETURN_IF_ERROR(run_with(algorithm, at));
  TUTTI_CUDA(cudaEventRecord(end->get(), stream_));
  TUTTI_RETURN_IF_ERROR(wait_for(end->get()));
  float milliseconds = 0;
  TUTTI_CUDA(cudaEventElapsedTime(&milliseconds, begin->get(), end->get()));
  return milliseconds / static_cast<float>(runs);
}

Status BlasProduct::measure(const BlasAddresses& at) {
  struct Entrant {
    std::size_t candidate = 0;
    float milliseconds = 0;
  };
  std::vector<Entrant> entrants;
  Status failed;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const cublasLtMatmulAlgo_t& algorithm = candidates_[i].algo;
    if (const auto warm_up = time(algorithm, at, 1); !warm_up.ok()) {
      failed = warm_up.status();
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(const float once, time(algorithm, at, 2));
    entrants.push_back({i, once});
  }
  if (entrants.empty()) return failed.with_context("no algorithm of cublasLt runs");
  const auto faster = [](const Entrant& a, const Entrant& b) {
    return a.milliseconds < b.milliseconds;
  };
  std::stable_sort(entrants.begin(), entrants.end(), faster);
  entrants.resize(std::min(entrants.size(), kFinalists));
  for (Entrant& entrant : entrants) {
    const int runs = static_cast<int>(
        std::clamp(kSettledMilliseconds / std::max(entrant.milliseconds, 1e-3F), 3.0F, kMostRuns));
    const cublasLtMatmulAlgo_t& algorithm = candidates_[entrant.candidate].algo;
    TUTTI_RETURN_IF_ERROR(time(algorithm, at, runs).status());
    TUTTI_ASSIGN_OR_RETURN(entrant.milliseconds, time(algorithm, at, runs));
  }
  const Entrant& best = *std::min_element(entrants.begin(), entrants.end(), faster);
  const cublasLtMatmulHeuristicResult_t& found = candidates_[best.candidate];
  algorithm_ = found.algo;
  const Blas::Choice choice{found.algo, found.workspaceSize};
  blas_.chosen_.emplace(shape_, choice);
  Artifact artifact = blas_.artifact_of(shape_);
  artifact.content.assign(reinterpret_cast<const char*>(&choice), sizeof choice);
  blas_.store_.add(std::move(artifact));
  return {};
}

// Under the library's lock, so that two ranks do not time at once.
Status BlasProduct::choose(const BlasAddresses& at) {
  const std::lock_guard lock(blas_.mutex_);
  const auto known = blas_.chosen_.find(shape_);
  if (known != blas_.chosen_.end() || candidates_.size() == 1) {
    algorithm_ = known != blas_.chosen_.end() ? known->second.algorithm : candidates_.front().algo;
  } else {
    TUTTI_RETURN_IF_ERROR(measure(at));
  }
  is_chosen_ = true;
  return {};
}

Status BlasProduct::run(const BlasAddresses& at) {
  if (!is_chosen_) TUTTI_RETURN_IF_ERROR(choose(at));
  return run_with(algorithm_, at);
}

}  // namespace tutti::cuda
