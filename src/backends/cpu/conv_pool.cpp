// The kernel of Pool: maximum, average and p-norm over windows, one plane a work item.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/cpu/kernels.h"
#include "base/dispatch.h"

namespace tutti::cpu {
namespace {

enum class PoolKind { kMax, kAverage, kLp };

// Three spatial dimensions always; missing ones have size 1.
struct PoolShape {
  DType dtype = DType::kFloat32;
  PoolKind kind = PoolKind::kMax;
  bool counts_padding = false;
  double p = 2;
  std::int64_t planes = 0;
  std::int64_t in[3] = {1, 1, 1};
  std::int64_t out[3] = {1, 1, 1};
  std::int64_t kernel[3] = {1, 1, 1};
  std::int64_t stride[3] = {1, 1, 1};
  std::int64_t dilation[3] = {1, 1, 1};
  std::int64_t pad_begin[3] = {0, 0, 0};
  std::int64_t pad_end[3] = {0, 0, 0};
};

// Kernel positions [first, last) of the window at output position o that lie inside the input, and
// how many lie inside input and padding together.
struct Range {
  Range(const PoolShape& s, std::size_t d, std::int64_t o) {
    start = o * s.stride[d] - s.pad_begin[d];
    const std::int64_t dilation = s.dilation[d];
    first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const auto before = [&](std::int64_t end) {
      return end <= start ? 0 : std::min(s.kernel[d], (end - start + dilation - 1) / dilation);
    };
    last = before(s.in[d]);
    padded_count = before(s.in[d] + s.pad_end[d]);
  }
  std::int64_t start, first, last, padded_count;
};

template <class T>
void pool_plane(const PoolShape& s, const T* x, T* y) {
  using C = ComputeType<T>;
  for (std::int64_t z = 0; z < s.out[0]; ++z) {
    const Range rz(s, 0, z);
    for (std::int64_t r = 0; r < s.out[1]; ++r) {
      const Range rr(s, 1, r);
      for (std::int64_t q = 0; q < s.out[2]; ++q) {
        const Range rq(s, 2, q);
        C most = std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity()
                                                      : std::numeric_limits<C>::lowest();
        C sum = 0;
        std::int64_t count = 0;
        for (std::int64_t i = rz.first; i < rz.last; ++i) {
          for (std::int64_t j = rr.first; j < rr.last; ++j) {
            const T* row =
                x +
                ((rz.start + i * s.dilation[0]) * s.in[1] + rr.start + j * s.dilation[1]) *
                    s.in[2] +
                rq.start;
            for (std::int64_t k = rq.first; k < rq.last; ++k) {
              const C value = static_cast<C>(row[k * s.dilation[2]]);
              ++count;
              if (s.kind == PoolKind::kMax) {
                most = std::max(most, value);
              } else if constexpr (std::is_floating_point_v<C>) {
                sum += s.kind == PoolKind::kAverage
                           ? value
                           : std::pow(std::abs(value), static_cast<C>(s.p));
              }
            }
          }
        }
        C result = most;
        if constexpr (std::is_floating_point_v<C>) {
          if (s.counts_padding) count = rz.padded_count * rr.padded_count * rq.padded_count;
          if (s.kind == PoolKind::kAverage) result = sum / static_cast<C>(count);
          if (s.kind == PoolKind::kLp) result = std::pow(sum, static_cast<C>(1.0 / s.p));
        }
        *y++ = static_cast<T>(result);
      }
    }
  }
}

class PoolKernel : public Kernel {
 public:
  PoolKernel(const PoolShape& shape, ThreadPool* pool) : s_(shape), pool_(pool) {}

  Status run(const KernelArgs& args) override {
    return dispatch_dtype(s_.dtype, [&](auto tag) -> Status {
      using T = typename decltype(tag)::type;
      const auto* x = static_cast<const T*>(args.inputs[0]);
      auto* y = static_cast<T*>(args.outputs[0]);
      const std::int64_t in_size = s_.in[0] * s_.in[1] * s_.in[2];
      const std::int64_t out_size = s_.out[0] * s_.out[1] * s_.out[2];
      const auto body = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
        for (std::int64_t plane = begin; plane < end; ++plane) {
          pool_plane<T>(s_, x + plane * in_size, y + plane * out_size);
        }
      };
      pool_->parallel_for(out_size == 0 ? 0 : s_.planes, 1, std::ref(body));
      return {};
    });
  }

 private:
  const PoolShape s_;
  ThreadPool* pool_;
};

Result<std::unique_ptr<Kernel>> make_pool(const KernelSpec& spec, CpuContext& context) {
  const Dims& x = spec.inputs[0].dims;
  const Dims& y = spec.outputs[0].dims;
  const std::size_t rank = x.size() - 2;
  if (rank > 3) return unimplemented("pooling over ", rank, " dimensions; expected 1 to 3");
  const std::string kind = spec.node.attr_string("kind");
  const Dims kernel = spec.node.attr_ints("kernel_shape");
  const Dims strides = spec.node.attr_ints("strides");
  const Dims dilations = spec.node.attr_ints("dilations");
  const Dims pads = spec.node.attr_ints("pads");
  PoolShape s;
  s.dtype = spec.inputs[0].dtype;
  s.kind = kind == "max" ? PoolKind::kMax : kind == "average" ? PoolKind::kAverage : PoolKind::kLp;
  s.counts_padding = spec.node.attr_int("count_include_pad") != 0;
  s.p = static_cast<double>(spec.node.attr_int("p", 2));
  s.planes = x[0] * x[1];
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t d = 3 - rank + i;
    s.in[d] = x[i + 2];
    s.out[d] = y[i + 2];
    s.kernel[d] = kernel[i];
    if (!strides.empty()) s.stride[d] = strides[i];
    if (!dilations.empty()) s.dilation[d] = dilations[i];
    if (!pads.empty()) {
      s.pad_begin[d] = pads[i];
      s.pad_end[d] = pads[i + rank];
    }
  }
  return std::unique_ptr<Kernel>(std::make_unique<PoolKernel>(s, context.pool));
}

}  // namespace

void register_pool_kernels(KernelRegistry* registry) { registry->add("Pool", make_pool); }

}  // namespace tutti::cpu
