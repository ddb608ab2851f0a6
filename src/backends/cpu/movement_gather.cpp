// Gather, GatherElements, GatherND. An index out of bounds is an error that names it.
#include <atomic>
#include <cstring>
#include <functional>

#include "backends/cpu/movement_kernels.h"
#include "backends/cpu/strided.h"
#include "runtime/lambda_kernel.h"

namespace tutti::cpu {
namespace {

constexpr std::size_t kMaxRank = 32;

// The first bad index that any thread met.
class BadIndex {
 public:
  void set(std::int64_t index) {
    value_.store(index, std::memory_order_relaxed);
    is_set_.store(true, std::memory_order_relaxed);
  }
  Status status(std::int64_t size) const {
    if (!is_set_.load(std::memory_order_relaxed)) return {};
    return invalid_argument("index ", value_.load(std::memory_order_relaxed), " is not in [-", size,
                            ", ", size, ")");
  }

 private:
  std::atomic<bool> is_set_{false};
  std::atomic<std::int64_t> value_{0};
};

inline void copy_item(std::byte* to, const std::byte* from, std::int64_t bytes) {
  // Single elements are frequent: a call of memcpy would cost more than the copy.
  switch (bytes) {
    case 1: *to = *from; break;
    case 2: std::memcpy(to, from, 2); break;
    case 4: std::memcpy(to, from, 4); break;
    case 8: std::memcpy(to, from, 8); break;
    default: std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

}  // namespace

KernelResult make_gather(const KernelSpec& spec, CpuContext& context) {
  const AxisView view = view_axis(spec.inputs[0].dims, spec.node.attr_int("axis"));
  const std::int64_t count = spec.inputs[1].element_count();
  const std::int64_t bytes =
      view.inner * static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype));
  const bool wide = spec.inputs[1].dtype == DType::kInt64;
  if (spec.outputs[0].element_count() != view.outer * count * view.inner) {
    return invalid_argument("the output has shape ", spec.outputs[0].dims, " for data ",
                            spec.inputs[0].dims, " and indices ", spec.inputs[1].dims);
  }
  return make_lambda_kernel(
      [view, count, bytes, wide, pool = context.pool](const KernelArgs& args) {
        if (bytes == 0) return Status();
        BadIndex bad;
        const auto gather = [&](std::int64_t begin, std::int64_t end, int) {
          const auto* data = static_cast<const std::byte*>(args.inputs[0]);
          auto* out = static_cast<std::byte*>(args.outputs[0]);
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t outer = item / count;
            const std::int64_t given = index_at(args.inputs[1], wide, item % count);
            const std::int64_t index = given < 0 ? given + view.size : given;
            if (index < 0 || index >= view.size) {
              bad.set(given);
              return;
            }
            copy_item(out + item * bytes, data + (outer * view.size + index) * bytes, bytes);
          }
        };
        pool->parallel_for(view.outer * count, grain_for(bytes), std::cref(gather));
        return bad.status(view.size);
      });
}

KernelResult make_gather_elements(const KernelSpec& spec, CpuContext& context) {
  const auto axis = static_cast<std::size_t>(spec.node.attr_int("axis"));
  const Dims data_dims = spec.inputs[0].dims;
  const Dims dims = spec.inputs[1].dims;
  const Dims strides = contiguous_strides(data_dims);
  const auto bytes = static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype));
  const bool wide = spec.inputs[1].dtype == DType::kInt64;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d != axis && dims[d] > data_dims[d]) {
      return invalid_argument("indices ", dims, " reach past data ", data_dims, " in dimension ",
                              d);
    }
  }
  return make_lambda_kernel([=, pool = context.pool](const KernelArgs& args) {
    BadIndex bad;
    const std::int64_t size = data_dims[axis];
    const auto gather = [&](std::int64_t begin, std::int64_t end, int) {
      const auto* data = static_cast<const std::byte*>(args.inputs[0]);
      auto* out = static_cast<std::byte*>(args.outputs[0]);
      std::int64_t at[kMaxRank];
      for (std::int64_t item = begin; item < end; ++item) {
        unravel(item, dims, at);
        const std::int64_t given = index_at(args.inputs[1], wide, item);
        const std::int64_t index = given < 0 ? given + size : given;
        if (index < 0 || index >= size) {
          bad.set(given);
          return;
        }
        std::int64_t offset = index * strides[axis];
        for (std::size_t d = 0; d < dims.size(); ++d) {
          if (d != axis) offset += at[d] * strides[d];
        }
        copy_item(out + item * bytes, data + offset * bytes, bytes);
      }
    };
    pool->parallel_for(tutti::element_count(dims), grain_for(bytes * 8), std::cref(gather));
    return bad.status(size);
  });
}

KernelResult make_gather_nd(const KernelSpec& spec, CpuContext& context) {
  const Dims data = spec.inputs[0].dims;
  const Dims& indices = spec.inputs[1].dims;
  const auto batch = static_cast<std::size_t>(spec.node.attr_int("batch_dims", 0));
  const auto depth = static_cast<std::size_t>(indices.back());
  const Dims strides = contiguous_strides(data);
  std::int64_t batches = 1;
  for (std::size_t d = 0; d < batch; ++d) batches *= data[d];
  const std::int64_t items = tutti::element_count(indices) / static_cast<std::int64_t>(depth);
  std::int64_t bytes = static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype));
  std::int64_t batch_bytes = bytes;
  for (std::size_t d = batch; d < data.size(); ++d) batch_bytes *= data[d];
  const std::int64_t element = bytes;
  for (std::size_t d = batch + depth; d < data.size(); ++d) bytes *= data[d];
  const bool wide = spec.inputs[1].dtype == DType::kInt64;
  const std::int64_t per_batch = batches == 0 ? 0 : items / batches;
  return make_lambda_kernel([=, pool = context.pool](const KernelArgs& args) {
    if (bytes == 0 || items == 0) return Status();
    BadIndex bad;
    std::atomic<std::int64_t> bad_size{0};
    const auto gather = [&](std::int64_t begin, std::int64_t end, int) {
      auto* out = static_cast<std::byte*>(args.outputs[0]);
      for (std::int64_t item = begin; item < end; ++item) {
        const auto* from =
            static_cast<const std::byte*>(args.inputs[0]) + item / per_batch * batch_bytes;
        for (std::size_t k = 0; k < depth; ++k) {
          const std::int64_t size = data[batch + k];
          const std::int64_t given =
              index_at(args.inputs[1], wide,
                       item * static_cast<std::int64_t>(depth) + static_cast<std::int64_t>(k));
          const std::int64_t index = given < 0 ? given + size : given;
          if (index < 0 || index >= size) {
            bad_size.store(size, std::memory_order_relaxed);
            bad.set(given);
            return;
          }
          from += index * strides[batch + k] * element;
        }
        copy_item(out + item * bytes, from, bytes);
      }
    };
    pool->parallel_for(items, grain_for(bytes), std::cref(gather));
    return bad.status(bad_size.load(std::memory_order_relaxed));
  });
}

}  // namespace tutti::cpu
