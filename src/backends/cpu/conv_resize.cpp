// The kernel of Resize: one pass an axis, last axis first, so that the early passes run on the
// smaller tensors and the late ones move whole rows.
#include <algorithm>
#include <cstring>
#include <functional>

#include "backends/cpu/kernels.h"
#include "backends/cpu/resize_taps.h"
#include "base/dispatch.h"

namespace tutti::cpu {
namespace {

// x: [outer, in, inner] -> [outer, out, inner].
struct Pass {
  std::int64_t outer = 0, in = 0, out = 0, inner = 0;
  ResizeTaps taps;
};

// Nearest: elements are only moved, so only their size matters.
template <class Word>
void move_rows(const Pass& p, const Word* x, Word* y, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const Word* from = x + row / p.out * p.in * p.inner +
                       p.taps.index[static_cast<std::size_t>(row % p.out)] * p.inner;
    if (p.inner == 1) {
      y[row] = *from;
    } else {
      std::memcpy(y + row * p.inner, from, static_cast<std::size_t>(p.inner) * sizeof(Word));
    }
  }
}

template <class C>
void mix_rows(const Pass& p, const C* x, C* y, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const C* from = x + row / p.out * p.in * p.inner;
    const auto at = static_cast<std::size_t>(row % p.out * p.taps.count);
    C* to = y + row * p.inner;
    for (std::int64_t t = 0; t < p.taps.count; ++t) {
      const C weight = static_cast<C>(p.taps.weight[at + static_cast<std::size_t>(t)]);
      const C* source = from + p.taps.index[at + static_cast<std::size_t>(t)] * p.inner;
      if (t == 0) {
        for (std::int64_t i = 0; i < p.inner; ++i) to[i] = weight * source[i];
      } else {
        for (std::int64_t i = 0; i < p.inner; ++i) to[i] += weight * source[i];
      }
    }
  }
}

class ResizeKernel : public Kernel {
 public:
  ResizeKernel(DType dtype, bool is_nearest, std::int64_t in_count, std::vector<Pass> passes,
               ThreadPool* pool)
      : dtype_(dtype),
        is_nearest_(is_nearest),
        in_count_(in_count),
        passes_(std::move(passes)),
        pool_(pool) {
    out_count_ = passes_.empty() ? in_count : output_of(passes_.size() - 1);
    const bool converts = !is_nearest && dtype != DType::kFloat32 && dtype != DType::kFloat64;
    const std::size_t element = is_nearest || !converts                        ? dtype_size(dtype)
                                : dtype_size(dtype) == 2 && is_floating(dtype) ? sizeof(float)
                                                                               : sizeof(double);
    const auto reserve = [&](std::size_t buffer, std::int64_t count) {
      buffer_bytes_[buffer] = std::max(buffer_bytes_[buffer],
                                       (static_cast<std::size_t>(count) * element + 63) / 64 * 64);
    };
    for (std::size_t i = 0; i + 1 < passes_.size(); ++i) reserve(i % 2, output_of(i));
    if (converts) {
      reserve(1, in_count_);
      reserve((passes_.size() + 1) % 2, out_count_);
    }
  }

  // Two buffers take turns between the passes. f16, bf16 and integers are computed in f32 or f64,
  // so their input and result need room too.
  std::size_t workspace_bytes() const override { return buffer_bytes_[0] + buffer_bytes_[1]; }

  Status run(const KernelArgs& args) override {
    auto* first = static_cast<std::byte*>(args.workspace);
    std::byte* buffers[2] = {first, first + buffer_bytes_[0]};
    if (is_nearest_) {
      switch (dtype_size(dtype_)) {
        case 1: return move<std::uint8_t>(args, buffers);
        case 2: return move<std::uint16_t>(args, buffers);
        case 4: return move<std::uint32_t>(args, buffers);
        default: return move<std::uint64_t>(args, buffers);
      }
    }
    return dispatch_dtype(dtype_, [&](auto tag) -> Status {
      using T = typename decltype(tag)::type;
      using C = std::conditional_t<std::is_same_v<ComputeType<T>, float>, float, double>;
      return mix<T, C>(args, buffers);
    });
  }

 private:
  std::int64_t output_of(std::size_t pass) const {
    return passes_[pass].outer * passes_[pass].out * passes_[pass].inner;
  }

  // Runs all passes from `x`; the last one writes `y`.
  template <class E, class F>
  void run_passes(const E* x, E* y, std::byte* const* buffers, F&& rows) {
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      E* target = i + 1 == passes_.size() ? y : reinterpret_cast<E*>(buffers[i % 2]);
      const auto body = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
        rows(passes_[i], x, target, begin, end);
      };
      const Pass& pass = passes_[i];
      pool_->parallel_for(pass.outer * pass.out, std::max<std::int64_t>(1, 8192 / pass.inner),
                          std::ref(body));
      x = target;
    }
  }

  template <class Word>
  Status move(const KernelArgs& args, std::byte* const* buffers) {
    run_passes(static_cast<const Word*>(args.inputs[0]), static_cast<Word*>(args.outputs[0]),
               buffers, move_rows<Word>);
    return {};
  }

  template <class T, class C>
  Status mix(const KernelArgs& args, std::byte* const* buffers) {
    const auto* x = static_cast<const T*>(args.inputs[0]);
    auto* y = static_cast<T*>(args.outputs[0]);
    if constexpr (std::is_same_v<T, C>) {
      run_passes(x, y, buffers, mix_rows<C>);
    } else {
      // The converted input takes the buffer that the first pass does not write, and so does the
      // result before it is converted back.
      auto* input = reinterpret_cast<C*>(buffers[1]);
      for (std::int64_t i = 0; i < in_count_; ++i) input[i] = static_cast<C>(x[i]);
      auto* result = reinterpret_cast<C*>(buffers[(passes_.size() + 1) % 2]);
      run_passes<C>(input, result, buffers, mix_rows<C>);
      for (std::int64_t i = 0; i < out_count_; ++i) y[i] = static_cast<T>(result[i]);
    }
    return {};
  }

  const DType dtype_;
  const bool is_nearest_;
  const std::int64_t in_count_;
  const std::vector<Pass> passes_;
  ThreadPool* pool_;
  std::int64_t out_count_ = 0;
  std::size_t buffer_bytes_[2] = {0, 0};
};

class EmptyKernel : public Kernel {
 public:
  Status run(const KernelArgs& /*args*/) override { return {}; }
};

Result<std::unique_ptr<Kernel>> make_resize(const KernelSpec& spec, CpuContext& context) {
  const Node& node = spec.node;
  Dims dims = spec.inputs[0].dims;
  const Dims& out = spec.outputs[0].dims;
  if (element_count(out) == 0) return std::unique_ptr<Kernel>(std::make_unique<EmptyKernel>());
  if (element_count(dims) == 0)
    return invalid_argument("input ", dims, " has nothing to resize to ", out);
  const ResizeOptions options{
      .mode = node.attr_string("mode", "nearest"),
      .transformation = node.attr_string("coordinate_transformation_mode", "half_pixel"),
      .nearest_mode = node.attr_string("nearest_mode", "round_prefer_floor"),
      .cubic_coefficient = node.attr_float("cubic_coeff_a", -0.75),
      .excludes_outside = node.attr_int("exclude_outside") != 0,
      .antialiases = node.attr_int("antialias") != 0};
  const Dims axes = node.attr_ints("axes");
  const std::vector<double> scales = node.attr_floats("scales");
  Dims crop = node.attr_ints("crop");
  crop.resize(axes.size(), 0);
  const std::int64_t in_count = element_count(dims);
  std::vector<std::size_t> order(axes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return axes[a] > axes[b]; });
  std::vector<Pass> passes;
  for (const std::size_t i : order) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const auto at = static_cast<std::ptrdiff_t>(axis);
    const double scale = scales.empty()
                             ? static_cast<double>(out[axis]) / static_cast<double>(dims[axis])
                             : scales[i];
    Pass pass{element_count(Dims(dims.begin(), dims.begin() + at)), dims[axis], out[axis],
              element_count(Dims(dims.begin() + at + 1, dims.end())),
              make_resize_taps(options, dims[axis], crop[i] + out[axis], scale)};
    pass.taps.drop_front(crop[i]);
    dims[axis] = out[axis];
    passes.push_back(std::move(pass));
  }
  return std::unique_ptr<Kernel>(std::make_unique<ResizeKernel>(
      spec.inputs[0].dtype, options.mode == "nearest", in_count, std::move(passes), context.pool));
}

}  // namespace

void register_resize_kernels(KernelRegistry* registry) { registry->add("Resize", make_resize); }

}  // namespace tutti::cpu
