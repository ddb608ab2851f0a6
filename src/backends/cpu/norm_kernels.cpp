// Kernels of LayerNormalization, RMSNormalization and GroupNorm.
#include <algorithm>
#include <functional>

#include "backends/cpu/kernels.h"
#include "backends/cpu/norm_loops.h"

namespace tutti::cpu {
namespace {

const void* optional_input(const KernelArgs& args, std::size_t i) {
  return i < args.inputs.size() ? args.inputs[i] : nullptr;
}

// y = (x - mean) * rstd * scale + bias over one row; scale and bias may be null.
template <class T>
TUTTI_INLINE inline void write_row(const T* x, T* y, std::int64_t n, ComputeType<T> mean,
                                   ComputeType<T> rstd, const T* scale, const T* bias) {
  if (scale != nullptr && bias != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = from_compute<T>((to_compute(x[i]) - mean) * rstd * to_compute(scale[i]) +
                             to_compute(bias[i]));
    }
  } else if (scale != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = from_compute<T>((to_compute(x[i]) - mean) * rstd * to_compute(scale[i]));
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = from_compute<T>((to_compute(x[i]) - mean) * rstd);
    if (bias == nullptr) return;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = from_compute<T>(to_compute(y[i]) + to_compute(bias[i]));
  }
}

class TrailingNormKernel : public Kernel {
 public:
  TrailingNormKernel(DType dtype, std::int64_t rows, std::int64_t n, double epsilon,
                     bool is_centred, ThreadPool* pool)
      : dtype_(dtype),
        rows_(rows),
        n_(n),
        epsilon_(epsilon),
        is_centred_(is_centred),
        pool_(pool) {}

  Status run(const KernelArgs& args) override {
    return dispatch_floating(dtype_, [&](auto tag) -> Status {
      using T = typename decltype(tag)::type;
      const auto* x = static_cast<const T*>(args.inputs[0]);
      const auto* scale = static_cast<const T*>(optional_input(args, 1));
      const auto* bias = static_cast<const T*>(optional_input(args, 2));
      auto* y = static_cast<T*>(args.outputs[0]);
      const auto body = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
        with_simd([&]() TUTTI_INLINE {
          for (std::int64_t row = begin; row < end; ++row) {
            const T* source = x + row * n_;
            const double count = static_cast<double>(n_);
            const auto mean =
                static_cast<ComputeType<T>>(is_centred_ ? sum_of(source, n_) / count : 0.0);
            const double variance = squares_of(source, n_, mean) / count;
            const auto rstd =
                static_cast<ComputeType<T>>(1.0 / __builtin_sqrt(variance + epsilon_));
            write_row(source, y + row * n_, n_, mean, rstd, scale, bias);
          }
        });
      };
      pool_->parallel_for(rows_, std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, n_)),
                          std::ref(body));
      return {};
    });
  }

 private:
  const DType dtype_;
  const std::int64_t rows_;
  const std::int64_t n_;
  const double epsilon_;
  const bool is_centred_;
  ThreadPool* pool_;
};

// One work item is one group of one batch element: channels side by side in memory.
class GroupNormKernel : public Kernel {
 public:
  GroupNormKernel(DType dtype, const Dims& x, std::int64_t groups, double epsilon, ThreadPool* pool)
      : dtype_(dtype),
        batch_(x[0]),
        channels_(x[1]),
        groups_(groups),
        space_(element_count(Dims(x.begin() + 2, x.end()))),
        epsilon_(epsilon),
        pool_(pool) {}

  Status run(const KernelArgs& args) override {
    return dispatch_floating(dtype_, [&](auto tag) -> Status {
      using T = typename decltype(tag)::type;
      const auto* x = static_cast<const T*>(args.inputs[0]);
      const auto* scale = static_cast<const T*>(optional_input(args, 1));
      const auto* bias = static_cast<const T*>(optional_input(args, 2));
      auto* y = static_cast<T*>(args.outputs[0]);
      const auto body = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
        for (std::int64_t item = begin; item < end; ++item)
          normalize_group<T>(item, x, scale, bias, y);
      };
      pool_->parallel_for(batch_ * groups_, 1, std::ref(body));
      return {};
    });
  }

 private:
  template <class T>
  void normalize_group(std::int64_t item, const T* x, const T* scale, const T* bias, T* y) const {
    using C = ComputeType<T>;
    const std::int64_t size = channels_ / groups_;
    const std::int64_t n = size * space_;
    const std::int64_t channel = item % groups_ * size;
    const T* source = x + item * n;
    T* target = y + item * n;
    with_simd([&]() TUTTI_INLINE {
      const auto mean = static_cast<C>(sum_of(source, n) / static_cast<double>(n));
      const double variance = squares_of(source, n, mean) / static_cast<double>(n);
      const double rstd = 1.0 / __builtin_sqrt(variance + epsilon_);
      for (std::int64_t c = 0; c < size; ++c) {
        const C factor =
            static_cast<C>(rstd) * (scale == nullptr ? C(1) : to_compute(scale[channel + c]));
        const C offset = bias == nullptr ? C(0) : to_compute(bias[channel + c]);
        const T* from = source + c * space_;
        T* to = target + c * space_;
#pragma omp simd
        for (std::int64_t i = 0; i < space_; ++i) {
          to[i] = from_compute<T>((to_compute(from[i]) - mean) * factor + offset);
        }
      }
    });
  }

  const DType dtype_;
  const std::int64_t batch_;
  const std::int64_t channels_;
  const std::int64_t groups_;
  const std::int64_t space_;
  const double epsilon_;
  ThreadPool* pool_;
};

class EmptyKernel : public Kernel {
 public:
  Status run(const KernelArgs& /*args*/) override { return {}; }
};

Result<std::unique_ptr<Kernel>> make_trailing_norm(const KernelSpec& spec, CpuContext& context) {
  const Dims& x = spec.inputs[0].dims;
  const auto axis = static_cast<std::ptrdiff_t>(spec.node.attr_int("axis"));
  const Dims normalized(x.begin() + axis, x.end());
  for (std::size_t i = 1; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].dtype != DType::kUndefined && spec.inputs[i].dims != normalized) {
      return invalid_argument("parameter ", i, " has sizes ", spec.inputs[i].dims, "; expected ",
                              normalized);
    }
  }
  return std::unique_ptr<Kernel>(std::make_unique<TrailingNormKernel>(
      spec.inputs[0].dtype, element_count(Dims(x.begin(), x.begin() + axis)),
      element_count(normalized), spec.node.attr_float("epsilon"),
      spec.node.type() == "LayerNormalization", context.pool));
}

Result<std::unique_ptr<Kernel>> make_group_norm(const KernelSpec& spec, CpuContext& context) {
  const Dims& x = spec.inputs[0].dims;
  const std::int64_t groups = spec.node.attr_int("groups");
  if (element_count(x) == 0) return std::unique_ptr<Kernel>(std::make_unique<EmptyKernel>());
  if (x[1] % groups != 0)
    return invalid_argument(groups, " groups do not divide ", x[1], " channels");
  return std::unique_ptr<Kernel>(std::make_unique<GroupNormKernel>(
      spec.inputs[0].dtype, x, groups, spec.node.attr_float("epsilon"), context.pool));
}

}  // namespace

void register_softmax_kernels(KernelRegistry* registry);

void register_norm_kernels(KernelRegistry* registry) {
  registry->add("LayerNormalization", make_trailing_norm);
  registry->add("RMSNormalization", make_trailing_norm);
  registry->add("GroupNorm", make_group_norm);
  register_softmax_kernels(registry);
}

}  // namespace tutti::cpu
