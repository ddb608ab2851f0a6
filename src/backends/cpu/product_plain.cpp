#include "backends/cpu/product_plain.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "backends/cpu/convert.h"
#include "base/dispatch.h"

namespace tutti::cpu {
namespace {

// A few columns at a time, so that the sums stay in registers and B is read along its rows.
constexpr std::int64_t kColumns = 16;

// Integers wrap around, as unsigned ones do.
template <class T>
struct SumType {
  using type = ComputeType<T>;
};
template <class T>
  requires std::is_integral_v<T>
struct SumType<T> {
  using type = std::make_unsigned_t<T>;
};

template <class T>
void product_rows(std::int64_t begin, std::int64_t end, std::int64_t k, std::int64_t columns,
                  std::int64_t b_row, std::int64_t b_column, const T* a, const T* b, T* c) {
  using C = typename SumType<T>::type;
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t j0 = 0; j0 < columns; j0 += kColumns) {
      const std::int64_t count = std::min(kColumns, columns - j0);
      C sums[kColumns] = {};
      for (std::int64_t p = 0; p < k; ++p) {
        const C x = static_cast<C>(a[i * k + p]);
        const T* row = b + p * b_row + j0 * b_column;
        for (std::int64_t j = 0; j < count; ++j) {
          sums[j] = static_cast<C>(sums[j] + x * static_cast<C>(row[j * b_column]));
        }
      }
      for (std::int64_t j = 0; j < count; ++j) c[i * columns + j0 + j] = static_cast<T>(sums[j]);
    }
  }
}

template <class C>
C activate(std::string_view name, C x) {
  if (name == "relu") return x > C(0) ? x : C(0);
  if (name == "gelu") return C(0.5) * x * (C(1) + std::erf(x * C(0.70710678118654752440)));
  if (name == "gelu_tanh") {
    return C(0.5) * x *
           (C(1) + std::tanh(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x)));
  }
  if (name == "silu") return x / (C(1) + std::exp(-x));
  if (name == "sigmoid") return C(1) / (C(1) + std::exp(-x));
  if (name == "tanh") return std::tanh(x);
  return x;
}

}  // namespace

Status plain_product(DType dtype, std::int64_t rows, std::int64_t k, std::int64_t columns,
                     bool transpose_b, const void* a, const void* b, void* c, ThreadPool* pool) {
  const std::int64_t b_row = transpose_b ? 1 : columns;
  const std::int64_t b_column = transpose_b ? k : 1;
  return dispatch_dtype(dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) {
      return invalid_argument("matrix products of bool are not defined");
    } else {
      const auto body = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
        product_rows<T>(begin, end, k, columns, b_row, b_column, static_cast<const T*>(a),
                        static_cast<const T*>(b), static_cast<T*>(c));
      };
      const std::int64_t grain =
          std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, k * columns));
      pool->parallel_for(rows, grain, std::ref(body));
      return {};
    }
  });
}

Status plain_epilogue(DType dtype, std::int64_t rows, std::int64_t columns,
                      std::string_view activation, const void* bias, const void* residual, void* c,
                      ThreadPool* pool) {
  return dispatch_dtype(dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    if constexpr (!std::is_floating_point_v<C>) {
      return invalid_argument("activations need floating-point numbers");
    } else {
      const auto body = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
        T* out = static_cast<T*>(c);
        const T* add = static_cast<const T*>(bias);
        const T* rest = static_cast<const T*>(residual);
        for (std::int64_t i = begin * columns; i < end * columns; ++i) {
          C x = static_cast<C>(out[i]);
          if (add != nullptr) x += static_cast<C>(add[i % columns]);
          x = activate<C>(activation, x);
          if (rest != nullptr) x += static_cast<C>(rest[i]);
          out[i] = static_cast<T>(x);
        }
      };
      pool->parallel_for(rows, 64, std::ref(body));
      return {};
    }
  });
}

void to_floats(DType dtype, const void* source, float* target, std::int64_t count,
               ThreadPool* pool) {
  const auto body = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    if (dtype == DType::kBFloat16) {
      convert_to_float(static_cast<const BFloat16*>(source) + begin, target + begin, end - begin);
    } else {
      convert_to_float(static_cast<const Half*>(source) + begin, target + begin, end - begin);
    }
  };
  pool->parallel_for(count, 16384, std::ref(body));
}

void from_floats(DType dtype, const float* source, void* target, std::int64_t count,
                 ThreadPool* pool) {
  const auto body = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    if (dtype == DType::kBFloat16) {
      convert_from_float(source + begin, static_cast<BFloat16*>(target) + begin, end - begin);
    } else {
      convert_from_float(source + begin, static_cast<Half*>(target) + begin, end - begin);
    }
  };
  pool->parallel_for(count, 16384, std::ref(body));
}

}  // namespace tutti::cpu
