// Reduce over any set of axes. Neighbouring axes of one sort merge, so that memory is a pattern of
// kept and reduced dimensions; the innermost one decides the loop:
//   reduced: each result sums dense stretches;  kept: stretches of results sum side by side.
#include <algorithm>
#include <functional>

#include "backends/cpu/kernels.h"
#include "backends/cpu/movement_kernels.h"
#include "backends/cpu/reduce_loops.h"
#include "backends/cpu/strided.h"
#include "runtime/lambda_kernel.h"

namespace tutti::cpu {
namespace {

constexpr std::int64_t kLanes = 256;  // results that are accumulated side by side
constexpr std::size_t kMaxRank = 32;

// All strides in elements; the innermost dimension stands apart.
struct Plan {
  Dims kept;
  Dims kept_strides;
  Dims reduced;
  Dims reduced_strides;
  std::int64_t inner = 1;
  bool is_inner_reduced = true;
  std::int64_t count = 1;  // elements for each result
};

Plan make_plan(const Dims& dims, const std::vector<std::int64_t>& axes) {
  Plan plan;
  Dims merged;
  std::vector<bool> flags;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const bool reduced =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
    if (reduced) plan.count *= dims[d];
    if (dims[d] == 1) continue;
    if (!flags.empty() && flags.back() == reduced) {
      merged.back() *= dims[d];
    } else {
      merged.push_back(dims[d]);
      flags.push_back(reduced);
    }
  }
  if (merged.empty()) return plan;
  const Dims strides = contiguous_strides(merged);
  plan.inner = merged.back();
  plan.is_inner_reduced = flags.back();
  for (std::size_t d = 0; d + 1 < merged.size(); ++d) {
    (flags[d] ? plan.reduced : plan.kept).push_back(merged[d]);
    (flags[d] ? plan.reduced_strides : plan.kept_strides).push_back(strides[d]);
  }
  return plan;
}

std::int64_t offset_of(std::int64_t index, const Dims& dims, const Dims& strides) {
  std::int64_t offset = 0;
  for (std::size_t d = dims.size(); d-- > 0;) {
    offset += index % dims[d] * strides[d];
    index /= dims[d];
  }
  return offset;
}

// Calls f(offset) for each position of the reduced outer dimensions.
template <class F>
void for_each_reduced(const Plan& plan, const F& f) {
  const std::int64_t count = tutti::element_count(plan.reduced);
  std::int64_t at[kMaxRank] = {};
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    f(offset);
    for (std::size_t d = plan.reduced.size(); d-- > 0;) {
      offset += plan.reduced_strides[d];
      if (++at[d] < plan.reduced[d]) break;
      offset -= plan.reduced[d] * plan.reduced_strides[d];
      at[d] = 0;
    }
  }
}

// How elements of the stored type become C and results become elements again.
template <class C>
struct Storage {
  std::int64_t size = 0;  // bytes of a stored element
  void (*load)(const void* source, C* target, std::int64_t count) = nullptr;  // null: C is stored
  void (*store)(C value, void* target, std::int64_t i) = nullptr;
};

template <class C, ReduceKind kind>
class Reducer {
 public:
  using A = ReduceAccumulator<C, kind>;

  static void run(const Plan& plan, const Storage<C>& storage, const KernelArgs& args,
                  ThreadPool* pool) {
    const auto* in = static_cast<const std::byte*>(args.inputs[0]);
    const std::int64_t rows = tutti::element_count(plan.kept);
    if (plan.is_inner_reduced) {
      const auto reduce_rows = [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t offset = offset_of(row, plan.kept, plan.kept_strides);
          storage.store(reduce_row(plan, storage, in + offset * storage.size), args.outputs[0],
                        row);
        }
      };
      pool->parallel_for(rows, grain_for(plan.count * storage.size), std::cref(reduce_rows));
      return;
    }
    const std::int64_t pieces = (plan.inner + kLanes - 1) / kLanes;
    const auto reduce_pieces = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        const std::int64_t row = piece / pieces;
        const std::int64_t lane = piece % pieces * kLanes;
        const std::int64_t offset = offset_of(row, plan.kept, plan.kept_strides) + lane;
        const std::int64_t lanes = std::min(kLanes, plan.inner - lane);
        C results[kLanes];
        reduce_side_by_side(plan, storage, in + offset * storage.size, lanes, results);
        for (std::int64_t i = 0; i < lanes; ++i) {
          storage.store(results[i], args.outputs[0], row * plan.inner + lane + i);
        }
      }
    };
    pool->parallel_for(rows * pieces,
                       grain_for(plan.count * std::min(kLanes, plan.inner) * storage.size),
                       std::cref(reduce_pieces));
  }

 private:
  static const C* load(const Storage<C>& storage, const std::byte* source, C* buffer,
                       std::int64_t count) {
    if (storage.load == nullptr) return reinterpret_cast<const C*>(source);
    storage.load(source, buffer, count);
    return buffer;
  }

  template <ReduceKind step, class Total>
  static Total total_of(const Plan& plan, const Storage<C>& storage, const std::byte* base,
                        C shift) {
    Total total = reduce_identity<step, Total>();
    C buffer[kRun];
    for_each_reduced(plan, [&](std::int64_t offset) {
      for (std::int64_t i = 0; i < plan.inner; i += kRun) {
        const std::int64_t count = std::min(kRun, plan.inner - i);
        const C* x = load(storage, base + (offset + i) * storage.size, buffer, count);
        total = reduce_combine<step, Total>(
            total, static_cast<Total>(reduce_run<step, C>(x, count, shift)));
      }
    });
    return total;
  }

  static C reduce_row(const Plan& plan, const Storage<C>& storage, const std::byte* base) {
    C shift = C(0);
    if constexpr (kind == ReduceKind::kLogSumExp) {
      shift = total_of<ReduceKind::kMax, C>(plan, storage, base, C(0));
    }
    const A total = total_of<kind, A>(plan, storage, base, shift);
    return static_cast<C>(reduce_finish<kind>(total, plan.count, static_cast<double>(shift)));
  }

  static void reduce_side_by_side(const Plan& plan, const Storage<C>& storage,
                                  const std::byte* base, std::int64_t lanes, C* results) {
    C buffer[kLanes];
    C shifts[kLanes];
    A totals[kLanes];
    if constexpr (kind == ReduceKind::kLogSumExp) {
      std::fill_n(shifts, lanes, reduce_identity<ReduceKind::kMax, C>());
      for_each_reduced(plan, [&](std::int64_t offset) {
        const C* x = load(storage, base + offset * storage.size, buffer, lanes);
        reduce_lanes<ReduceKind::kMax, C, C>(x, shifts, lanes, nullptr);
      });
    }
    std::fill_n(totals, lanes, reduce_identity<kind, A>());
    for_each_reduced(plan, [&](std::int64_t offset) {
      const C* x = load(storage, base + offset * storage.size, buffer, lanes);
      reduce_lanes<kind, C, A>(x, totals, lanes, shifts);
    });
    for (std::int64_t i = 0; i < lanes; ++i) {
      double shift = 0;
      if constexpr (kind == ReduceKind::kLogSumExp) shift = static_cast<double>(shifts[i]);
      results[i] = static_cast<C>(reduce_finish<kind>(totals[i], plan.count, shift));
    }
  }
};

template <class C>
using Run = void (*)(const Plan&, const Storage<C>&, const KernelArgs&, ThreadPool*);

template <class C>
Run<C> find_run(std::string_view kind) {
  if (kind == "sum") return Reducer<C, ReduceKind::kSum>::run;
  if (kind == "mean") return Reducer<C, ReduceKind::kMean>::run;
  if (kind == "max") return Reducer<C, ReduceKind::kMax>::run;
  if (kind == "min") return Reducer<C, ReduceKind::kMin>::run;
  if (kind == "prod") return Reducer<C, ReduceKind::kProd>::run;
  if (kind == "l1") return Reducer<C, ReduceKind::kL1>::run;
  if (kind == "l2") return Reducer<C, ReduceKind::kL2>::run;
  if (kind == "log_sum") return Reducer<C, ReduceKind::kLogSum>::run;
  if (kind == "sum_square") return Reducer<C, ReduceKind::kSumSquare>::run;
  if constexpr (std::is_floating_point_v<C>) {
    if (kind == "log_sum_exp") return Reducer<C, ReduceKind::kLogSumExp>::run;
  }
  return nullptr;
}

template <class T, class C>
KernelResult make_for(Plan plan, std::string_view kind, ThreadPool* pool) {
  Storage<C> storage;
  storage.size = static_cast<std::int64_t>(sizeof(T));
  if constexpr (!std::is_same_v<T, C>) storage.load = load_run<T, C>;
  storage.store = store_result<T, C>;
  const Run<C> run = find_run<C>(kind);
  if (run == nullptr) return internal_error("there is no loop for Reduce ", kind);
  return make_lambda_kernel([plan = std::move(plan), storage, run, pool](const KernelArgs& args) {
    run(plan, storage, args, pool);
    return Status();
  });
}

template <class T>
KernelResult make_integer(Plan plan, std::string_view kind, ThreadPool* pool) {
  if (kind == "log_sum_exp") return make_for<T, double>(std::move(plan), kind, pool);
  using C = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;
  return make_for<T, C>(std::move(plan), kind, pool);
}

KernelResult make_reduce(const KernelSpec& spec, CpuContext& context) {
  const std::string kind = spec.node.attr_string("kind");
  const std::vector<std::int64_t> axes = spec.node.attr_ints("axes");
  ThreadPool* pool = context.pool;
  Plan plan = make_plan(spec.inputs[0].dims, axes);
  const std::int64_t results =
      tutti::element_count(plan.kept) * (plan.is_inner_reduced ? 1 : plan.inner);
  if (spec.outputs[0].element_count() != results) {
    return invalid_argument("the output has shape ", spec.outputs[0].dims, " for ",
                            spec.inputs[0].dims, " reduced over ", axes);
  }
  switch (spec.inputs[0].dtype) {
    case DType::kFloat32: return make_for<float, float>(std::move(plan), kind, pool);
    case DType::kFloat64: return make_for<double, double>(std::move(plan), kind, pool);
    case DType::kFloat16: return make_for<Half, float>(std::move(plan), kind, pool);
    case DType::kBFloat16: return make_for<BFloat16, float>(std::move(plan), kind, pool);
    case DType::kInt8: return make_integer<std::int8_t>(std::move(plan), kind, pool);
    case DType::kInt16: return make_integer<std::int16_t>(std::move(plan), kind, pool);
    case DType::kInt32: return make_integer<std::int32_t>(std::move(plan), kind, pool);
    case DType::kInt64: return make_integer<std::int64_t>(std::move(plan), kind, pool);
    case DType::kBool:  // bytes of 0 and 1; max and min only
    case DType::kUInt8: return make_integer<std::uint8_t>(std::move(plan), kind, pool);
    case DType::kUInt16: return make_integer<std::uint16_t>(std::move(plan), kind, pool);
    case DType::kUInt32: return make_integer<std::uint32_t>(std::move(plan), kind, pool);
    case DType::kUInt64: return make_integer<std::uint64_t>(std::move(plan), kind, pool);
    default:
      return unimplemented("there is no loop for Reduce over ", dtype_name(spec.inputs[0].dtype));
  }
}

}  // namespace

void register_reduce_kernels(KernelRegistry* registry) { registry->add("Reduce", make_reduce); }

}  // namespace tutti::cpu
