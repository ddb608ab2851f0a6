// CumSum, Trilu, ReverseSequence, TopK, ArgMax, ArgMin.
#include <algorithm>

#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/kernels.h"

namespace tutti::cuda {
namespace {

KernelSource scan_source(const char* entry, int operation, bool is_wide, const std::string& type) {
  KernelSource source;
  source.entry = entry;
  source.files = {"pointwise.cuh", "scan.cuh"};
  define_index(is_wide, &source);
  source.defines.emplace_back("OPERATION", std::to_string(operation));
  source.defines.emplace_back("T", type);
  return source;
}

std::string word_name(std::size_t bytes) { return str_cat("Word<", bytes, ">::type"); }

KernelResult unary_kernel(GeneratedKernel kernel) {
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.outputs[0]});
  });
}

KernelResult make_cum_sum(const KernelSpec& spec, RankContext& context) {
  const AxisView view = view_axis(spec.inputs[0].dims, spec.node.attr_int("axis"));
  const std::int64_t lines = view.outer * view.inner;
  const bool is_wide = needs_wide_index({lines});
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(
          context, scan_source("cum_sum", 0, is_wide, type_name(spec.inputs[0].dtype)), 2,
          {lines, divisor_word(view.inner, is_wide), view.inner, view.size,
           spec.node.attr_int("exclusive", 0), spec.node.attr_int("reverse", 0)},
          grid_for(context, lines)));
  return unary_kernel(std::move(kernel));
}

KernelResult make_trilu(const KernelSpec& spec, RankContext& context) {
  const Dims& dims = spec.inputs[0].dims;
  const std::int64_t columns = dims.back();
  const std::int64_t rows = dims[dims.size() - 2];
  const std::int64_t total = spec.inputs[0].element_count();
  const bool is_wide = needs_wide_index({total});
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(
          context, scan_source("trilu", 1, is_wide, word_name(dtype_size(spec.inputs[0].dtype))), 2,
          {total, divisor_word(columns, is_wide), columns, divisor_word(rows, is_wide), rows,
           spec.node.attr_int("upper"),
           std::clamp(spec.node.attr_int("k", 0), -rows - 1, columns + 1)},
          grid_for(context, total)));
  return unary_kernel(std::move(kernel));
}

KernelResult make_reverse_sequence(const KernelSpec& spec, RankContext& context) {
  const Dims& dims = spec.inputs[0].dims;
  const std::int64_t batch_axis = spec.node.attr_int("batch_axis");
  const std::int64_t batches = dims[static_cast<std::size_t>(batch_axis)];
  const std::int64_t times = dims[static_cast<std::size_t>(spec.node.attr_int("time_axis"))];
  if (spec.inputs[1].dims != Dims{batches}) {
    return invalid_argument("lengths have shape ", spec.inputs[1].dims, "; expected [", batches,
                            "]");
  }
  const std::int64_t total = spec.inputs[0].element_count();
  if (total == 0) return make_empty_kernel();
  const std::int64_t row = total / (batches * times);
  const std::int64_t second = batch_axis == 0 ? times : batches;
  const bool is_wide = needs_wide_index({total});
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(
          context,
          scan_source("reverse_sequence", 2, is_wide, word_name(dtype_size(spec.inputs[0].dtype))),
          4,
          {total, divisor_word(row, is_wide), row, divisor_word(second, is_wide), second,
           batch_axis == 0 ? 1 : 0, times,
           context.add_fault_source(str_cat(spec.node.describe(), ": length"))},
          grid_for(context, total)));
  return make_lambda_kernel(
      [kernel = std::move(kernel), faults = context.fault_words()](const KernelArgs& args) mutable {
        return kernel.run({args.inputs[0], args.inputs[1], args.outputs[0], faults});
      });
}

Result<GeneratedKernel> rank_kernel(const KernelSpec& spec, RankContext& context,
                                    const AxisView& view, std::int64_t found, bool is_largest,
                                    bool is_last, bool has_values) {
  const std::int64_t lines = view.outer * view.inner;
  const bool is_wide = needs_wide_index({lines});
  KernelSource source;
  source.entry = "rank_line";
  source.files = {"rank.cuh"};
  define_index(is_wide, &source);
  source.defines.emplace_back("T", type_name(spec.inputs[0].dtype));
  source.defines.emplace_back("LARGEST", is_largest ? "true" : "false");
  source.defines.emplace_back("LAST", is_last ? "true" : "false");
  source.defines.emplace_back("HAS_VALUES", has_values ? "true" : "false");
  Grid grid;
  grid.blocks = std::min<std::int64_t>(lines, 65535);
  return GeneratedKernel::create(
      context, std::move(source), 3,
      {lines, divisor_word(view.inner, is_wide), view.inner, view.size, found}, grid);
}

KernelResult make_top_k(const KernelSpec& spec, RankContext& context) {
  const AxisView view = view_axis(spec.inputs[0].dims, spec.node.attr_int("axis"));
  TUTTI_ASSIGN_OR_RETURN(const Dims k, evaluate(spec.node.attr_dims("k"), spec.symbols));
  if (k[0] < 0 || k[0] > view.size) {
    return invalid_argument("k ", k[0], " is not in [0, ", view.size, "]");
  }
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      rank_kernel(spec, context, view, k[0], spec.node.attr_int("largest", 1) != 0, false, true));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.outputs[1], args.outputs[0]});
  });
}

KernelResult make_arg(const KernelSpec& spec, RankContext& context) {
  const AxisView view = view_axis(spec.inputs[0].dims, spec.node.attr_int("axis"));
  if (view.size == 0 && view.outer * view.inner > 0) {
    return invalid_argument("the axis of ", spec.inputs[0].dims,
                            " is empty: there is no index to name");
  }
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         rank_kernel(spec, context, view, 1, spec.node.type() == "ArgMax",
                                     spec.node.attr_int("select_last_index", 0) != 0, false));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.outputs[0], nullptr});
  });
}

}  // namespace

void register_scan_kernels(KernelTable* table) {
  table->add("CumSum", make_cum_sum);
  table->add("Trilu", make_trilu);
  table->add("ReverseSequence", make_reverse_sequence);
  table->add("TopK", make_top_k);
  table->add("ArgMax", make_arg);
  table->add("ArgMin", make_arg);
}

}  // namespace tutti::cuda
