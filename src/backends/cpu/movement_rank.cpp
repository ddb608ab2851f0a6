// TopK, ArgMax, ArgMin: elements ranked along one axis. Among equals the lower index comes first
// (the last one where ArgMax and ArgMin are asked for it); NaN ranks above every number.
#include <algorithm>
#include <functional>

#include "backends/cpu/movement_kernels.h"
#include "base/dispatch.h"
#include "runtime/lambda_kernel.h"

namespace tutti::cpu {
namespace {

// a before b when the largest come first.
template <class C>
bool ranks_above(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a || b != b) return a != a && b == b;
  }
  return a > b;
}

template <class C>
bool ranks_below(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a || b != b) return a != a && b == b;
  }
  return a < b;
}

struct TopK {
  AxisView view;
  std::int64_t k = 0;
  bool is_largest = true;
};

template <class T>
void top_k_lane(const TopK& op, const T* in, T* values, std::int64_t* indices,
                std::int64_t* order) {
  using C = ComputeType<T>;
  const std::int64_t stride = op.view.inner;
  for (std::int64_t i = 0; i < op.view.size; ++i) order[i] = i;
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const C x = static_cast<C>(in[a * stride]);
    const C y = static_cast<C>(in[b * stride]);
    if (op.is_largest ? ranks_above(x, y) : ranks_below(x, y)) return true;
    if (op.is_largest ? ranks_above(y, x) : ranks_below(y, x)) return false;
    return a < b;
  };
  std::partial_sort(order, order + op.k, order + op.view.size, before);
  for (std::int64_t i = 0; i < op.k; ++i) {
    values[i * stride] = in[order[i] * stride];
    indices[i * stride] = order[i];
  }
}

struct Arg {
  AxisView view;
  bool is_max = true;
  bool selects_last = false;
};

template <class T>
std::int64_t arg_lane(const Arg& op, const T* in) {
  using C = ComputeType<T>;
  std::int64_t best = 0;
  C extreme = static_cast<C>(in[0]);
  for (std::int64_t i = 1; i < op.view.size; ++i) {
    const C element = static_cast<C>(in[i * op.view.inner]);
    const bool better = op.is_max ? ranks_above(element, extreme) : ranks_below(element, extreme);
    const bool worse = op.is_max ? ranks_above(extreme, element) : ranks_below(extreme, element);
    if (better || (op.selects_last && !worse)) {
      best = i;
      extreme = element;
    }
  }
  return best;
}

}  // namespace

KernelResult make_top_k(const KernelSpec& spec, CpuContext& context) {
  TopK op;
  op.view = view_axis(spec.inputs[0].dims, spec.node.attr_int("axis"));
  TUTTI_ASSIGN_OR_RETURN(const Dims k, evaluate(spec.node.attr_dims("k"), spec.symbols));
  op.k = k[0];
  op.is_largest = spec.node.attr_int("largest", 1) != 0;
  if (op.k < 0 || op.k > op.view.size) {
    return invalid_argument("k ", op.k, " is not in [0, ", op.view.size, "]");
  }
  const DType dtype = spec.inputs[0].dtype;
  ThreadPool* pool = context.pool;
  const std::size_t workspace =
      static_cast<std::size_t>(pool->size()) * static_cast<std::size_t>(op.view.size) * 8;
  return make_lambda_kernel(
      [op, dtype, pool](const KernelArgs& args) {
        return dispatch_dtype(dtype, [&](auto tag) {
          using T = typename decltype(tag)::type;
          const auto rank_lanes = [&](std::int64_t begin, std::int64_t end, int worker) {
            auto* order = static_cast<std::int64_t*>(args.workspace) + worker * op.view.size;
            for (std::int64_t lane = begin; lane < end; ++lane) {
              const std::int64_t outer = lane / op.view.inner;
              const std::int64_t inner = lane % op.view.inner;
              const std::int64_t to = outer * op.k * op.view.inner + inner;
              top_k_lane(op,
                         static_cast<const T*>(args.inputs[0]) +
                             outer * op.view.size * op.view.inner + inner,
                         static_cast<T*>(args.outputs[0]) + to,
                         static_cast<std::int64_t*>(args.outputs[1]) + to, order);
            }
          };
          pool->parallel_for(op.view.outer * op.view.inner, grain_for(op.view.size * 64),
                             std::cref(rank_lanes));
          return Status();
        });
      },
      workspace);
}

KernelResult make_arg(const KernelSpec& spec, CpuContext& context) {
  Arg op;
  op.view = view_axis(spec.inputs[0].dims, spec.node.attr_int("axis"));
  op.is_max = spec.node.type() == "ArgMax";
  op.selects_last = spec.node.attr_int("select_last_index", 0) != 0;
  const DType dtype = spec.inputs[0].dtype;
  ThreadPool* pool = context.pool;
  const std::int64_t lanes = op.view.outer * op.view.inner;
  if (op.view.size == 0 && lanes > 0) {
    return invalid_argument("the axis of ", spec.inputs[0].dims,
                            " is empty: there is no index to name");
  }
  return make_lambda_kernel([op, dtype, pool, lanes](const KernelArgs& args) {
    return dispatch_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto find_lanes = [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t lane = begin; lane < end; ++lane) {
          const T* in = static_cast<const T*>(args.inputs[0]) +
                        lane / op.view.inner * op.view.size * op.view.inner + lane % op.view.inner;
          static_cast<std::int64_t*>(args.outputs[0])[lane] = arg_lane(op, in);
        }
      };
      pool->parallel_for(lanes, grain_for(op.view.size * 8), std::cref(find_lanes));
      return Status();
    });
  });
}

}  // namespace tutti::cpu
