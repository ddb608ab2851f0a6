// A stand-in for libcublasLt.so.13: column-major products by plain loops, with the layouts and
// epilogues that the backend asks for. It offers a slow algorithm, a fast one, and one that refuses
// to run; all use their workspace, and all hold the caller to the alignments that it promised.
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "border.h"

namespace tutti::cuda_emulator {
namespace {

struct Layout {
  cudaDataType type;
  std::uint64_t rows;
  std::uint64_t columns;
  std::int64_t leading;
  std::int32_t batch = 1;
  std::int64_t stride = 0;  // elements
};

struct Product {
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

struct Preference {
  std::size_t workspace = 0;
  std::uint32_t alignments[4] = {256, 256, 256, 256};  // of a, b, c, d
};

// What a cublasLtMatmulAlgo_t holds.
struct Algorithm {
  std::uint64_t kind = 0;
  std::uint64_t workspace = 0;
  std::uint32_t alignments[4] = {};
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

// Products of more multiplications have one algorithm, so that nobody measures for minutes.
constexpr double kMostMeasured = 1e6;

enum Kind : std::uint64_t { kSlow = 1, kRefusing, kFast, kKinds };

double seconds_of(std::uint64_t kind) { return kind == kFast ? 0.05 : 0.1; }

// --- Elements -----------------------------------------------------------------------------------

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to{};
  std::memcpy(&to, &from, sizeof to);
  return to;
}

struct BFloat16 {
  std::uint16_t bits;

  explicit operator float() const { return bits_as<float>(std::uint32_t{bits} << 16); }
  static BFloat16 from(float x) {
    if (std::isnan(x)) return {0x7fff};
    const auto bits = bits_as<std::uint32_t>(x);
    return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
  }
};

struct Half {
  std::uint16_t bits;

  explicit operator float() const {
    const int exponent = bits >> 10 & 31;
    const int mantissa = bits & 1023;
    const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
    if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
    return sign * (exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                 : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25));
  }
  static Half from(float x) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
    const auto signed_bits = [sign](int bits) {
      return Half{static_cast<std::uint16_t>(sign | bits)};
    };
    const float size = std::fabs(x);
    if (std::isnan(x)) return {0x7fff};
    if (size >= 65520.0F) return signed_bits(0x7c00);
    const int exponent = std::max(size == 0 ? -14 : std::ilogb(size), -14);
    // Of 2^(exponent - 10) each; 1024 more is the next exponent's first.
    const int units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
    return signed_bits((exponent + 14) * 1024 + units);
  }
};

template <class T>
T rounded(double x) {
  return static_cast<T>(x);
}
template <>
BFloat16 rounded<BFloat16>(double x) {
  return BFloat16::from(static_cast<float>(x));
}
template <>
Half rounded<Half>(double x) {
  return Half::from(static_cast<float>(x));
}

// --- The product --------------------------------------------------------------------------------

struct Call {
  Product product;
  Layout a, b, c, d;
  const void* at_a;
  const void* at_b;
  const void* at_c;
  void* at_d;
  double alpha, beta;
  void* workspace;
  Algorithm algorithm;
};

bool has(cublasLtEpilogue_t epilogue, cublasLtEpilogue_t bit) { return (epilogue & bit) == bit; }

// Where an element of the matrix, or of its transpose, lies.
std::size_t at(const Layout& layout, bool is_transposed, std::size_t row, std::size_t column) {
  if (is_transposed) std::swap(row, column);
  return row + column * static_cast<std::size_t>(layout.leading);
}

template <class Sum>
Sum activated(Sum x, cublasLtEpilogue_t epilogue) {
  if (has(epilogue, CUBLASLT_EPILOGUE_RELU)) return x < 0 ? 0 : x;
  if (!has(epilogue, CUBLASLT_EPILOGUE_GELU)) return x;
  return static_cast<Sum>(0.5) * x *
         (1 + std::tanh(static_cast<Sum>(0.7978845608028654) *
                        (x + static_cast<Sum>(0.044715) * x * x * x)));
}

template <class T, class Sum>
void multiply(const Call& call) {
  const bool is_a_transposed = call.product.transpose_a != CUBLAS_OP_N;
  const bool is_b_transposed = call.product.transpose_b != CUBLAS_OP_N;
  const std::uint64_t inner = is_a_transposed ? call.a.rows : call.a.columns;
  const auto* bias = has(call.product.epilogue, CUBLASLT_EPILOGUE_BIAS)
                         ? static_cast<const T*>(call.product.bias)
                         : nullptr;
  const std::size_t rows = call.d.rows;
  std::vector<Sum> columns_of_a(rows * inner);  // widened once, a column's elements side by side
  std::vector<Sum> sums(rows);
  for (std::int32_t batch = 0; batch < call.d.batch; ++batch) {
    const auto* a = static_cast<const T*>(call.at_a) + batch * call.a.stride;
    const auto* b = static_cast<const T*>(call.at_b) + batch * call.b.stride;
    const auto* c = static_cast<const T*>(call.at_c) + batch * call.c.stride;
    auto* d = static_cast<T*>(call.at_d) + batch * call.d.stride;
    for (std::size_t k = 0; k < inner; ++k) {
      for (std::size_t i = 0; i < rows; ++i) {
        columns_of_a[k * rows + i] = static_cast<Sum>(a[at(call.a, is_a_transposed, i, k)]);
      }
    }
    for (std::size_t j = 0; j < call.d.columns; ++j) {
      std::fill(sums.begin(), sums.end(), Sum(0));
      for (std::size_t k = 0; k < inner; ++k) {
        const Sum factor = static_cast<Sum>(b[at(call.b, is_b_transposed, k, j)]);
        const Sum* column = columns_of_a.data() + k * rows;
        for (std::size_t i = 0; i < rows; ++i) sums[i] += column[i] * factor;
      }
      for (std::size_t i = 0; i < rows; ++i) {
        Sum value = static_cast<Sum>(call.alpha) * sums[i];
        if (call.beta != 0) {
          value += static_cast<Sum>(call.beta) * static_cast<Sum>(c[at(call.c, false, i, j)]);
        }
        if (bias != nullptr) value += static_cast<Sum>(bias[i]);
        d[at(call.d, false, i, j)] =
            rounded<T>(static_cast<double>(activated(value, call.product.epilogue)));
      }
    }
  }
}

std::size_t size_of(cudaDataType type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

// "" when the matrices lie in memory of a device, where their alignment was promised.
std::string objection(const char* name, const void* at, const Layout& layout,
                      std::uint32_t alignment) {
  const std::int64_t last = layout.stride * (layout.batch - 1) +
                            layout.leading * static_cast<std::int64_t>(layout.columns - 1) +
                            static_cast<std::int64_t>(layout.rows);
  const std::size_t bytes = static_cast<std::size_t>(last) * size_of(layout.type);
  if (device_bytes_from(at) < bytes) {
    return std::string(name) + " of " + std::to_string(bytes) + " bytes goes beyond its allocation";
  }
  for (std::int32_t batch = 0; batch < layout.batch; ++batch) {
    const auto address = reinterpret_cast<std::uintptr_t>(at) +
                         static_cast<std::size_t>(batch * layout.stride) * size_of(layout.type);
    if (address % alignment != 0) {
      return std::string(name) + " is not aligned to the promised " + std::to_string(alignment);
    }
  }
  return "";
}

std::string run(const Call& call) {
  const std::uint32_t* alignments = call.algorithm.alignments;
  for (const std::string& why : {objection("a", call.at_a, call.a, alignments[0]),
                                 objection("b", call.at_b, call.b, alignments[1]),
                                 objection("c", call.at_c, call.c, alignments[2]),
                                 objection("d", call.at_d, call.d, alignments[3])}) {
    if (!why.empty()) return why;
  }
  if (call.algorithm.workspace > 0) {
    if (device_bytes_from(call.workspace) < call.algorithm.workspace) return "no such workspace";
    std::memset(call.workspace, 0xff, call.algorithm.workspace);
  }
  switch (call.d.type) {
    case CUDA_R_64F: multiply<double, double>(call); break;
    case CUDA_R_16F: multiply<Half, float>(call); break;
    case CUDA_R_16BF: multiply<BFloat16, float>(call); break;
    default: multiply<float, float>(call);
  }
  return "";
}

template <class T>
T& of(void* opaque) {
  return *static_cast<T*>(opaque);
}

template <class T>
bool set(T* field, const void* value, std::size_t bytes) {
  if (bytes != sizeof *field) return false;
  std::memcpy(field, value, bytes);
  return true;
}

cublasStatus_t status_of(bool is_right) {
  return is_right ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return 139900; }

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "invalid value";
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t opaque,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  auto& layout = of<Layout>(opaque);
  return status_of(
      attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT            ? set(&layout.batch, value, bytes)
      : attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET ? set(&layout.stride, value, bytes)
                                                                 : false);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t) {
  auto* made = new Product;
  made->compute = compute;
  *product = reinterpret_cast<cublasLtMatmulDesc_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete &of<Product>(product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  auto& product = of<Product>(opaque);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return status_of(set(&product.transpose_a, value, bytes));
    case CUBLASLT_MATMUL_DESC_TRANSB: return status_of(set(&product.transpose_b, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return status_of(set(&product.epilogue, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return status_of(set(&product.bias, value, bytes));
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &of<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t opaque,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  auto& preference = of<Preference>(opaque);
  std::uint32_t* alignments = preference.alignments;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return status_of(set(&preference.workspace, value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return status_of(set(&alignments[0], value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return status_of(set(&alignments[1], value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return status_of(set(&alignments[2], value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return status_of(set(&alignments[3], value, bytes));
    default: return CUBLAS_STATUS_SUCCESS;  // nothing that changes a result here
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t opaque, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  const auto& preference = of<Preference>(opaque);
  const double multiplications = static_cast<double>(of<Layout>(a).rows * of<Layout>(a).columns) *
                                 static_cast<double>(of<Layout>(d).columns) * of<Layout>(d).batch;
  *found = 0;
  for (std::uint64_t kind = multiplications > kMostMeasured ? kFast : kSlow;
       kind < kKinds && *found < requested; ++kind) {
    Algorithm algorithm;
    algorithm.kind = kind;
    algorithm.workspace = std::min<std::size_t>(1000 * kind, preference.workspace);
    std::memcpy(algorithm.alignments, preference.alignments, sizeof algorithm.alignments);
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  Call call{of<Product>(product),
            of<Layout>(a_layout),
            of<Layout>(b_layout),
            of<Layout>(c_layout),
            of<Layout>(d_layout),
            a,
            b,
            c,
            d,
            0,
            0,
            workspace,
            {}};
  std::memcpy(static_cast<void*>(&call.algorithm), algorithm, sizeof call.algorithm);
  if (call.algorithm.kind == kRefusing) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (workspace_bytes < call.algorithm.workspace) return CUBLAS_STATUS_INVALID_VALUE;
  const bool is_wide = call.product.compute == CUBLAS_COMPUTE_64F;
  const auto number = [&](const void* at) {
    return is_wide ? *static_cast<const double*>(at)
                   : static_cast<double>(*static_cast<const float*>(at));
  };
  call.alpha = number(alpha);
  call.beta = number(beta);
  const bool is_a_transposed = call.product.transpose_a != CUBLAS_OP_N;
  const bool is_b_transposed = call.product.transpose_b != CUBLAS_OP_N;
  const std::uint64_t inner = is_a_transposed ? call.a.rows : call.a.columns;
  if ((is_a_transposed ? call.a.columns : call.a.rows) != call.d.rows ||
      (is_b_transposed ? call.b.rows : call.b.columns) != call.d.columns ||
      (is_b_transposed ? call.b.columns : call.b.rows) != inner) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const cudaError_t error =
      add_library_work(stream, "a product of cuBLASLt", seconds_of(call.algorithm.kind),
                       [call] { return run(call); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"

}  // namespace tutti::cuda_emulator
