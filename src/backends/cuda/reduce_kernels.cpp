// Reduce over any set of axes, norms and softmax: a thread, a warp or a block for each result.
#include <algorithm>
#include <bit>

#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/row_kernel.h"

namespace tutti::cuda {
namespace {

// Threads that share one item of `count` elements.
int team_for(std::int64_t count) { return count <= 8 ? 1 : count <= 1024 ? 32 : 256; }

Grid team_grid(const RankContext& context, std::int64_t items, int team) {
  const std::int64_t teams = 256 / team;
  Grid grid;
  grid.blocks = std::clamp<std::int64_t>((items + teams - 1) / teams, 1,
                                         std::int64_t{context.multiprocessors} * 16);
  return grid;
}

// Neighbouring axes of one sort merge, so that memory is a pattern of kept and reduced dimensions.
struct Pattern {
  std::vector<std::int64_t> kept;     // size, divisor, stride
  std::vector<std::int64_t> reduced;  // likewise
  std::int64_t results = 1;
  std::int64_t count = 1;
  bool is_inner_reduced = true;
};

Pattern make_pattern(const Dims& dims, const std::vector<std::int64_t>& axes, bool is_wide) {
  Pattern pattern;
  Dims merged;
  std::vector<bool> flags;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const bool reduced =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
    (reduced ? pattern.count : pattern.results) *= dims[d];
    if (dims[d] == 1) continue;
    if (!flags.empty() && flags.back() == reduced) {
      merged.back() *= dims[d];
    } else {
      merged.push_back(dims[d]);
      flags.push_back(reduced);
    }
  }
  const Dims strides = contiguous_strides(merged);
  for (std::size_t d = 0; d < merged.size(); ++d) {
    std::vector<std::int64_t>& list = flags[d] ? pattern.reduced : pattern.kept;
    list.insert(list.end(), {merged[d], divisor_word(merged[d], is_wide), strides[d]});
  }
  pattern.is_inner_reduced = flags.empty() || flags.back();
  return pattern;
}

Result<int> kind_number(std::string_view kind) {
  const std::string_view names[] = {"sum", "mean", "max",     "min",         "prod",
                                    "l1",  "l2",   "log_sum", "log_sum_exp", "sum_square"};
  const auto* found = std::find(std::begin(names), std::end(names), kind);
  if (found == std::end(names)) return internal_error("there is no code for Reduce ", kind);
  return static_cast<int>(found - std::begin(names));
}

KernelResult make_reduce(const KernelSpec& spec, RankContext& context) {
  const std::string kind = spec.node.attr_string("kind");
  TUTTI_ASSIGN_OR_RETURN(const int number, kind_number(kind));
  const TensorDesc& x = spec.inputs[0];
  const bool is_wide = needs_wide_index({x.element_count()});
  const std::vector<std::int64_t> axes = spec.node.attr_ints("axes");
  const Pattern pattern = make_pattern(x.dims, axes, is_wide);
  if (spec.outputs[0].element_count() != pattern.results) {
    return invalid_argument("the output has shape ", spec.outputs[0].dims, " for ", x.dims,
                            " reduced over ", axes);
  }
  std::string compute = compute_name(x.dtype);
  if (!is_floating(x.dtype)) {
    compute = kind == "log_sum_exp" ? "f64" : x.dtype == DType::kUInt64 ? "u64" : "i64";
  }
  const bool sums = kind != "max" && kind != "min";
  const bool few = pattern.results < 2048;
  const int team = pattern.is_inner_reduced || few ? team_for(pattern.count) : 1;
  KernelSource source;
  source.entry = "reduce_" + kind;
  source.files = {"pointwise.cuh", "team.cuh", "reduce.cuh"};
  define_index(is_wide, &source);
  source.defines.emplace_back("T", type_name(x.dtype));
  source.defines.emplace_back("C", compute);
  source.defines.emplace_back("A", compute == "f32" && sums ? "f64" : compute);
  source.defines.emplace_back("KIND", std::to_string(number));
  source.defines.emplace_back("TEAM", std::to_string(team));
  source.defines.emplace_back("KEPT", std::to_string(pattern.kept.size() / 3));
  source.defines.emplace_back("REDUCED", std::to_string(pattern.reduced.size() / 3));
  std::vector<std::int64_t> numbers = {pattern.results, pattern.count};
  numbers.insert(numbers.end(), pattern.kept.begin(), pattern.kept.end());
  numbers.insert(numbers.end(), pattern.reduced.begin(), pattern.reduced.end());
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(source), 2, std::move(numbers),
                                                 team_grid(context, pattern.results, team)));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.outputs[0]});
  });
}

}  // namespace

void register_reduce_kernels(KernelTable* table) { table->add("Reduce", make_reduce); }

namespace {

struct NormShape {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t group_channels = 1;
  std::int64_t channel_size = 1;
  std::int64_t groups = 1;
  bool is_group = false;
  bool is_centred = true;
};

KernelResult make_norm(const KernelSpec& spec, RankContext& context, const NormShape& shape) {
  if (spec.outputs[0].element_count() == 0) return make_empty_kernel();
  const int team = team_for(shape.n);
  KernelSource source;
  source.entry = shape.is_group ? "group_norm" : shape.is_centred ? "layer_norm" : "rms_norm";
  source.files = {"team.cuh", "norm.cuh"};
  define_index(true, &source);
  source.defines.emplace_back("T", type_name(spec.inputs[0].dtype));
  source.defines.emplace_back("A", spec.inputs[0].dtype == DType::kFloat64 ? "f64" : "f32");
  source.defines.emplace_back("TEAM", std::to_string(team));
  source.defines.emplace_back("IS_CENTRED", shape.is_centred ? "1" : "0");
  source.defines.emplace_back("IS_GROUP", shape.is_group ? "1" : "0");
  const double epsilon = spec.node.attr_float("epsilon");
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(context, std::move(source), 4,
                              {shape.rows, shape.n, std::bit_cast<std::int64_t>(epsilon),
                               shape.group_channels, shape.channel_size, shape.groups},
                              team_grid(context, shape.rows, team)));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run(
        {args.inputs[0], optional_input(args, 1), optional_input(args, 2), args.outputs[0]});
  });
}

// The node as a body of its own.
KernelResult make_norm_rows(const KernelSpec& spec, RankContext& context) {
  const auto shape_of = [](const TensorDesc& desc) {
    return Shape(desc.dims.begin(), desc.dims.end());
  };
  Graph body;
  std::vector<Value*> operands;
  std::vector<TensorDesc> inputs;
  std::vector<const Tensor*> constants;
  std::vector<std::size_t> present;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const bool is_present = has_input(spec, i);
    operands.push_back(is_present
                           ? body.add_input("", {spec.inputs[i].dtype, shape_of(spec.inputs[i])})
                           : nullptr);
    if (!is_present) continue;
    inputs.push_back(spec.inputs[i]);
    constants.push_back(spec.constants[i]);
    present.push_back(i);
  }
  const TensorDesc& out = spec.outputs[0];
  const Node* norm = body.add_node(spec.node.op(), spec.node.name(), operands,
                                   spec.node.attributes(), {{out.dtype, shape_of(out)}});
  body.add_output(norm->output());
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         make_row_kernel(context, {body, inputs, constants, spec.symbols}));
  std::vector<const void*> addresses(present.size() + 1);
  return make_lambda_kernel([kernel = std::move(kernel), present = std::move(present),
                             addresses = std::move(addresses)](const KernelArgs& args) mutable {
    for (std::size_t i = 0; i < present.size(); ++i) addresses[i] = args.inputs[present[i]];
    addresses.back() = args.outputs[0];
    return kernel.run(addresses);
  });
}

KernelResult make_trailing_norm(const KernelSpec& spec, RankContext& context) {
  const Dims& x = spec.inputs[0].dims;
  const auto axis = static_cast<std::ptrdiff_t>(spec.node.attr_int("axis"));
  const Dims normalized(x.begin() + axis, x.end());
  for (std::size_t i = 1; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].dtype != DType::kUndefined && spec.inputs[i].dims != normalized) {
      return invalid_argument("parameter ", i, " has sizes ", spec.inputs[i].dims, "; expected ",
                              normalized);
    }
  }
  if (element_count(x) == 0) return make_empty_kernel();
  auto rows = make_norm_rows(spec, context);
  if (rows.ok() || rows.status().code() != StatusCode::kUnimplemented) return rows;
  NormShape shape;
  shape.rows = element_count(Dims(x.begin(), x.begin() + axis));
  shape.n = element_count(normalized);
  shape.is_centred = spec.node.type() == "LayerNormalization";
  return make_norm(spec, context, shape);
}

KernelResult make_group_norm(const KernelSpec& spec, RankContext& context) {
  const Dims& x = spec.inputs[0].dims;
  if (element_count(x) == 0) return make_empty_kernel();
  NormShape shape;
  shape.groups = spec.node.attr_int("groups");
  if (x[1] % shape.groups != 0) {
    return invalid_argument(shape.groups, " groups do not divide ", x[1], " channels");
  }
  shape.rows = x[0] * shape.groups;
  shape.group_channels = x[1] / shape.groups;
  shape.channel_size = element_count(Dims(x.begin() + 2, x.end()));
  shape.n = shape.group_channels * shape.channel_size;
  shape.is_group = true;
  return make_norm(spec, context, shape);
}

KernelResult make_softmax(const KernelSpec& spec, RankContext& context) {
  const AxisView view = view_axis(spec.inputs[0].dims, spec.node.attr_int("axis"));
  if (spec.outputs[0].element_count() == 0) return make_empty_kernel();
  const int team = view.inner == 1 ? team_for(view.size) : 1;
  KernelSource source;
  const bool is_log = spec.node.type() == "LogSoftmax";
  source.entry = is_log ? "log_softmax" : "softmax";
  source.files = {"team.cuh", "softmax.cuh"};
  define_index(true, &source);
  source.defines.emplace_back("T", type_name(spec.inputs[0].dtype));
  source.defines.emplace_back("TEAM", std::to_string(team));
  source.defines.emplace_back("IS_LOG", is_log ? "1" : "0");
  source.defines.emplace_back("INFINITY_VALUE", "__int_as_float(0x7f800000)");
  const std::int64_t lines = view.outer * view.inner;
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(context, std::move(source), 2, {lines, view.size, view.inner},
                              team_grid(context, lines, team)));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.outputs[0]});
  });
}

}  // namespace

void register_norm_kernels(KernelTable* table) {
  table->add("LayerNormalization", make_trailing_norm);
  table->add("RMSNormalization", make_trailing_norm);
  table->add("GroupNorm", make_group_norm);
  table->add("Softmax", make_softmax);
  table->add("LogSoftmax", make_softmax);
}

}  // namespace tutti::cuda
