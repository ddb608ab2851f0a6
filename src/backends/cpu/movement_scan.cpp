// CumSum, Trilu, ReverseSequence.
#include <algorithm>
#include <cstring>
#include <functional>

#include "backends/cpu/movement_kernels.h"
#include "backends/cpu/wrapping.h"
#include "base/dispatch.h"
#include "runtime/lambda_kernel.h"

namespace tutti::cpu {
namespace {

struct Scan {
  AxisView view;
  bool is_exclusive = false;
  bool is_reverse = false;
};

// Lanes of the inner dimension advance together, so that memory is walked in order.
template <class T>
void cumulate(const Scan& scan, const T* in, T* out) {
  using C = ComputeType<T>;
  const auto [outer, size, inner] = scan.view;
  const std::int64_t step = scan.is_reverse ? -inner : inner;
  for (std::int64_t o = 0; o < outer; ++o) {
    const std::int64_t base = o * size * inner + (scan.is_reverse ? (size - 1) * inner : 0);
    if (inner == 1) {
      C sum = C(0);
      for (std::int64_t i = 0, at = base; i < size; ++i, at += step) {
        const C element = static_cast<C>(in[at]);
        if (scan.is_exclusive) out[at] = static_cast<T>(sum);
        sum = wrapping_add(sum, element);
        if (!scan.is_exclusive) out[at] = static_cast<T>(sum);
      }
      continue;
    }
    for (std::int64_t i = 0, at = base; i < size; ++i, at += step) {
      for (std::int64_t j = 0; j < inner; ++j) {
        if (i == 0) {
          out[at + j] = scan.is_exclusive ? T(C(0)) : in[at + j];
        } else {
          const T& element = scan.is_exclusive ? in[at - step + j] : in[at + j];
          out[at + j] = static_cast<T>(
              wrapping_add(static_cast<C>(out[at - step + j]), static_cast<C>(element)));
        }
      }
    }
  }
}

}  // namespace

KernelResult make_cum_sum(const KernelSpec& spec, CpuContext&) {
  Scan scan;
  scan.view = view_axis(spec.inputs[0].dims, spec.node.attr_int("axis"));
  scan.is_exclusive = spec.node.attr_int("exclusive", 0) != 0;
  scan.is_reverse = spec.node.attr_int("reverse", 0) != 0;
  const DType dtype = spec.inputs[0].dtype;
  return make_lambda_kernel([scan, dtype](const KernelArgs& args) {
    return dispatch_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      cumulate(scan, static_cast<const T*>(args.inputs[0]), static_cast<T*>(args.outputs[0]));
      return Status();
    });
  });
}

KernelResult make_trilu(const KernelSpec& spec, CpuContext& context) {
  const Dims& dims = spec.inputs[0].dims;
  const std::int64_t columns = dims.back();
  const std::int64_t rows = dims[dims.size() - 2];
  const std::int64_t total_rows = columns == 0 ? 0 : spec.inputs[0].element_count() / columns;
  const auto element = static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype));
  const bool keeps_upper = spec.node.attr_int("upper") != 0;
  const std::int64_t k = spec.node.attr_int("k", 0);
  return make_lambda_kernel([=, pool = context.pool](const KernelArgs& args) {
    const auto copy_rows = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t r = begin; r < end; ++r) {
        const auto* from = static_cast<const std::byte*>(args.inputs[0]) + r * columns * element;
        auto* to = static_cast<std::byte*>(args.outputs[0]) + r * columns * element;
        // Upper: columns from row + k on; lower: up to and with row + k. k may be anything.
        const std::int64_t row = r % rows;
        const std::int64_t shift = std::clamp(k, -rows, columns);
        const std::int64_t edge =
            std::clamp<std::int64_t>(row + shift + (keeps_upper ? 0 : 1), 0, columns);
        const std::int64_t first = keeps_upper ? edge : 0;
        const std::int64_t last = keeps_upper ? columns : edge;
        std::memset(to, 0, static_cast<std::size_t>(columns * element));
        std::memcpy(to + first * element, from + first * element,
                    static_cast<std::size_t>((last - first) * element));
      }
    };
    pool->parallel_for(total_rows, grain_for(columns * element), std::cref(copy_rows));
    return Status();
  });
}

KernelResult make_reverse_sequence(const KernelSpec& spec, CpuContext&) {
  const Dims& dims = spec.inputs[0].dims;
  const std::int64_t batch_axis = spec.node.attr_int("batch_axis");
  const std::int64_t batches = dims[static_cast<std::size_t>(batch_axis)];
  const std::int64_t times = dims[static_cast<std::size_t>(spec.node.attr_int("time_axis"))];
  if (spec.inputs[1].dims != Dims{batches}) {
    return invalid_argument("lengths have shape ", spec.inputs[1].dims, "; expected [", batches,
                            "]");
  }
  const bool batch_first = batch_axis == 0;
  const std::int64_t items = batches * times;
  const auto bytes =
      items == 0 ? std::int64_t{0} : static_cast<std::int64_t>(spec.inputs[0].byte_size()) / items;
  return make_lambda_kernel([=](const KernelArgs& args) {
    if (bytes == 0) return Status();
    const auto* lengths = static_cast<const std::int64_t*>(args.inputs[1]);
    const auto* from = static_cast<const std::byte*>(args.inputs[0]);
    auto* to = static_cast<std::byte*>(args.outputs[0]);
    const auto place = [&](std::int64_t batch, std::int64_t time) {
      return (batch_first ? batch * times + time : time * batches + batch) * bytes;
    };
    for (std::int64_t b = 0; b < batches; ++b) {
      if (lengths[b] < 0 || lengths[b] > times) {
        return invalid_argument("length ", lengths[b], " of sequence ", b, " is not in [0, ", times,
                                "]");
      }
      for (std::int64_t t = 0; t < times; ++t) {
        const std::int64_t source = t < lengths[b] ? lengths[b] - 1 - t : t;
        std::memcpy(to + place(b, t), from + place(b, source), static_cast<std::size_t>(bytes));
      }
    }
    return Status();
  });
}

}  // namespace tutti::cpu
