// Kernels of Softmax and LogSoftmax along any axis.
#include <algorithm>
#include <functional>
#include <limits>

#include "backends/cpu/kernels.h"
#include "backends/cpu/norm_loops.h"

namespace tutti::cpu {
namespace {

// Columns that one work item of a softmax along an inner axis takes: side by side in memory.
constexpr std::int64_t kColumns = 64;

template <class T>
TUTTI_INLINE inline void softmax_row(const T* x, T* y, std::int64_t n, bool is_log) {
  using C = ComputeType<T>;
  C most = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, to_compute(x[i]));
  C sum = 0;
  if constexpr (std::is_same_v<T, C>) {
    if (!is_log) {
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < n; ++i) {
        const C e = exp_of(x[i] - most);
        y[i] = e;
        sum += e;
      }
      const C factor = C(1) / sum;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] *= factor;
      return;
    }
  }
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += exp_of(to_compute(x[i]) - most);
  if (is_log) {
    const C shift = most + static_cast<C>(std::log(sum));
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = from_compute<T>(to_compute(x[i]) - shift);
  } else {
    const C factor = C(1) / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = from_compute<T>(exp_of(to_compute(x[i]) - most) * factor);
  }
}

// `count` columns next to each other; elements of one column are `stride` apart.
template <class T>
TUTTI_INLINE inline void softmax_columns(const T* x, T* y, std::int64_t n, std::int64_t stride,
                                         std::int64_t count, bool is_log) {
  using C = ComputeType<T>;
  C most[kColumns];
  C sums[kColumns];
  for (std::int64_t j = 0; j < count; ++j) {
    most[j] = -std::numeric_limits<C>::infinity();
    sums[j] = 0;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < count; ++j)
      most[j] = std::max(most[j], to_compute(x[i * stride + j]));
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < count; ++j)
      sums[j] += exp_of(to_compute(x[i * stride + j]) - most[j]);
  }
  for (std::int64_t j = 0; j < count; ++j) {
    sums[j] = is_log ? most[j] + static_cast<C>(std::log(sums[j])) : C(1) / sums[j];
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < count; ++j) {
      const C value = to_compute(x[i * stride + j]);
      y[i * stride + j] =
          from_compute<T>(is_log ? value - sums[j] : exp_of(value - most[j]) * sums[j]);
    }
  }
}

class SoftmaxKernel : public Kernel {
 public:
  SoftmaxKernel(DType dtype, const Dims& x, std::size_t axis, bool is_log, ThreadPool* pool)
      : dtype_(dtype),
        outer_(element_count(Dims(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis)))),
        n_(x[axis]),
        inner_(element_count(Dims(x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end()))),
        is_log_(is_log),
        pool_(pool) {}

  Status run(const KernelArgs& args) override {
    if (n_ == 0) return {};
    return dispatch_floating(dtype_, [&](auto tag) -> Status {
      using T = typename decltype(tag)::type;
      const auto* x = static_cast<const T*>(args.inputs[0]);
      auto* y = static_cast<T*>(args.outputs[0]);
      const auto rows = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
        with_simd([&]() TUTTI_INLINE {
          for (std::int64_t row = begin; row < end; ++row)
            softmax_row(x + row * n_, y + row * n_, n_, is_log_);
        });
      };
      const std::int64_t blocks = (inner_ + kColumns - 1) / kColumns;
      const auto columns = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
        with_simd([&]() TUTTI_INLINE {
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t first = item % blocks * kColumns;
            const std::int64_t at = item / blocks * n_ * inner_ + first;
            softmax_columns(x + at, y + at, n_, inner_, std::min(kColumns, inner_ - first),
                            is_log_);
          }
        });
      };
      if (inner_ == 1) {
        pool_->parallel_for(outer_, std::max<std::int64_t>(1, 8192 / n_), std::ref(rows));
      } else {
        pool_->parallel_for(outer_ * blocks, 1, std::ref(columns));
      }
      return {};
    });
  }

 private:
  const DType dtype_;
  const std::int64_t outer_;
  const std::int64_t n_;
  const std::int64_t inner_;
  const bool is_log_;
  ThreadPool* pool_;
};

Result<std::unique_ptr<Kernel>> make_softmax(const KernelSpec& spec, CpuContext& context) {
  return std::unique_ptr<Kernel>(
      std::make_unique<SoftmaxKernel>(spec.inputs[0].dtype, spec.inputs[0].dims,
                                      static_cast<std::size_t>(spec.node.attr_int("axis")),
                                      spec.node.type() == "LogSoftmax", context.pool));
}

}  // namespace

void register_softmax_kernels(KernelRegistry* registry) {
  registry->add("Softmax", make_softmax);
  registry->add("LogSoftmax", make_softmax);
}

}  // namespace tutti::cpu
