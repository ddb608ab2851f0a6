// Gather, GatherElements, GatherND, ScatterElements, ScatterND. An index out of bounds fails the
// request with a message that names it (RankContext::faults).
#include <algorithm>

#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/kernels.h"

namespace tutti::cuda {
namespace {

std::string index_type(const TensorDesc& indices) {
  return indices.dtype == DType::kInt64 ? "i64" : "i32";
}

// The widest word that a row of `bytes` is made of.
std::int64_t word_of(std::int64_t bytes) {
  for (std::int64_t word = 16; word > 1; word /= 2) {
    if (bytes % word == 0) return word;
  }
  return 1;
}

KernelSource source_of(const char* entry, const char* file, bool is_wide, const TensorDesc& indices,
                       std::int64_t word) {
  KernelSource source;
  source.entry = entry;
  source.files = {file};
  define_index(is_wide, &source);
  source.defines.emplace_back("INDEX", index_type(indices));
  source.defines.emplace_back("WORD", std::to_string(word));
  return source;
}

KernelResult gather_kernel(GeneratedKernel kernel, RankContext& context) {
  return make_lambda_kernel(
      [kernel = std::move(kernel), faults = context.fault_words()](const KernelArgs& args) mutable {
        return kernel.run({args.inputs[0], args.inputs[1], args.outputs[0], faults});
      });
}

KernelResult make_gather(const KernelSpec& spec, RankContext& context) {
  const AxisView view = view_axis(spec.inputs[0].dims, spec.node.attr_int("axis"));
  const std::int64_t count = spec.inputs[1].element_count();
  const std::int64_t bytes =
      view.inner * static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype));
  if (spec.outputs[0].element_count() != view.outer * count * view.inner) {
    return invalid_argument("the output has shape ", spec.outputs[0].dims, " for data ",
                            spec.inputs[0].dims, " and indices ", spec.inputs[1].dims);
  }
  const std::int64_t word = word_of(bytes);
  const std::int64_t row = bytes / word;
  const std::int64_t total = view.outer * count * row;
  const bool is_wide = needs_wide_index({total});
  KernelSource source = source_of("gather", "gather.cuh", is_wide, spec.inputs[1], word);
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(context, std::move(source), 4,
                              {total, divisor_word(row, is_wide), row, divisor_word(count, is_wide),
                               count, view.size, context.add_fault_source(spec.node.describe())},
                              grid_for(context, total)));
  return gather_kernel(std::move(kernel), context);
}

KernelResult make_gather_elements(const KernelSpec& spec, RankContext& context) {
  const auto axis = static_cast<std::size_t>(spec.node.attr_int("axis"));
  const Dims& data = spec.inputs[0].dims;
  const Dims& dims = spec.inputs[1].dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d != axis && dims[d] > data[d]) {
      return invalid_argument("indices ", dims, " reach past data ", data, " in dimension ", d);
    }
  }
  const std::int64_t total = element_count(dims);
  const bool is_wide = needs_wide_index({total});
  KernelSource source = source_of("gather_elements", "gather_elements.cuh", is_wide, spec.inputs[1],
                                  static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype)));
  source.defines.emplace_back("RANK", std::to_string(dims.size()));
  source.defines.emplace_back("AXIS", std::to_string(axis));
  const Dims strides = contiguous_strides(data);
  std::vector<std::int64_t> numbers = {total, data[axis],
                                       context.add_fault_source(spec.node.describe())};
  for (std::size_t d = 0; d < dims.size(); ++d) {
    numbers.insert(numbers.end(), {dims[d], divisor_word(dims[d], is_wide), strides[d]});
  }
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(source), 4, std::move(numbers),
                                                 grid_for(context, total)));
  return gather_kernel(std::move(kernel), context);
}

KernelResult make_gather_nd(const KernelSpec& spec, RankContext& context) {
  const Dims& data = spec.inputs[0].dims;
  const Dims& indices = spec.inputs[1].dims;
  const auto batch = static_cast<std::size_t>(spec.node.attr_int("batch_dims", 0));
  const auto depth = static_cast<std::size_t>(indices.back());
  const auto element = static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype));
  std::int64_t batches = 1;
  for (std::size_t d = 0; d < batch; ++d) batches *= data[d];
  const std::int64_t items =
      depth == 0 ? 0 : element_count(indices) / static_cast<std::int64_t>(depth);
  std::int64_t bytes = element;
  for (std::size_t d = batch + depth; d < data.size(); ++d) bytes *= data[d];
  if (bytes == 0 || items == 0) return make_empty_kernel();
  std::int64_t batch_bytes = element;
  for (std::size_t d = batch; d < data.size(); ++d) batch_bytes *= data[d];
  const std::int64_t word = word_of(bytes);
  const std::int64_t row = bytes / word;
  const std::int64_t total = items * row;
  const bool is_wide = needs_wide_index({total});
  KernelSource source = source_of("gather_nd", "gather_nd.cuh", is_wide, spec.inputs[1], word);
  source.defines.emplace_back("DEPTH", std::to_string(depth));
  const Dims strides = contiguous_strides(data);
  std::vector<std::int64_t> numbers = {
      total,
      divisor_word(row, is_wide),
      row,
      divisor_word(items / std::max<std::int64_t>(batches, 1), is_wide),
      batch_bytes / word,
      context.add_fault_source(spec.node.describe())};
  for (std::size_t k = 0; k < depth; ++k) {
    numbers.insert(numbers.end(), {data[batch + k], strides[batch + k] * element / word});
  }
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(source), 4, std::move(numbers),
                                                 grid_for(context, total)));
  return gather_kernel(std::move(kernel), context);
}

Result<int> reduction_number(const Node& node) {
  const std::string reduction = node.attr_string("reduction", "none");
  const std::string_view names[] = {"none", "add", "mul", "max", "min"};
  const auto* found = std::find(std::begin(names), std::end(names), reduction);
  if (found == std::end(names)) return invalid_argument("unknown reduction '", reduction, "'");
  return static_cast<int>(found - std::begin(names));
}

Result<KernelSource> scatter_source(const KernelSpec& spec, bool is_nd, bool is_wide) {
  KernelSource source;
  source.entry = is_nd ? "scatter_nd" : "scatter_elements";
  source.files = {"pointwise.cuh", "scatter.cuh"};
  define_index(is_wide, &source);
  TUTTI_ASSIGN_OR_RETURN(const int reduction, reduction_number(spec.node));
  const bool moves = reduction == 0;
  const DType dtype = spec.inputs[0].dtype;
  source.defines.emplace_back(
      "T", moves ? str_cat("Word<", dtype_size(dtype), ">::type") : type_name(dtype));
  source.defines.emplace_back("REDUCTION", std::to_string(reduction));
  source.defines.emplace_back("INDEX", index_type(spec.inputs[1]));
  source.defines.emplace_back("IS_ND", is_nd ? "1" : "0");
  return source;
}

KernelResult scatter_kernel(const KernelSpec& spec, GeneratedKernel kernel, RankContext& context) {
  return make_lambda_kernel([kernel = std::move(kernel), bytes = spec.inputs[0].byte_size(),
                             faults = context.fault_words(),
                             stream = context.stream](const KernelArgs& args) mutable {
    TUTTI_CUDA(
        cudaMemcpyAsync(args.outputs[0], args.inputs[0], bytes, cudaMemcpyDeviceToDevice, stream));
    return kernel.run({args.inputs[1], args.inputs[2], args.outputs[0], faults});
  });
}

// Nothing to write: the data itself.
KernelResult plain_copy(const KernelSpec& spec, RankContext& context) {
  return make_lambda_kernel([bytes = spec.inputs[0].byte_size(),
                             stream = context.stream](const KernelArgs& args) {
    return to_status(
        cudaMemcpyAsync(args.outputs[0], args.inputs[0], bytes, cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
  });
}

KernelResult make_scatter_elements(const KernelSpec& spec, RankContext& context) {
  const auto axis = static_cast<std::size_t>(spec.node.attr_int("axis"));
  const Dims& data = spec.inputs[0].dims;
  const Dims& dims = spec.inputs[1].dims;
  if (spec.inputs[2].dims != dims) {
    return invalid_argument("indices have shape ", dims, " and updates ", spec.inputs[2].dims);
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d != axis && dims[d] > data[d]) {
      return invalid_argument("indices ", dims, " reach past data ", data, " in dimension ", d);
    }
  }
  if (element_count(dims) == 0) return plain_copy(spec, context);
  const std::int64_t lines = element_count(dims) / dims[axis];
  const bool is_wide = needs_wide_index({lines});
  TUTTI_ASSIGN_OR_RETURN(KernelSource source, scatter_source(spec, false, is_wide));
  source.defines.emplace_back("OTHERS", std::to_string(dims.size() - 1));
  const Dims from = contiguous_strides(dims);
  const Dims to = contiguous_strides(data);
  std::vector<std::int64_t> numbers = {lines,      dims[axis],
                                       from[axis], data[axis],
                                       to[axis],   context.add_fault_source(spec.node.describe())};
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d == axis) continue;
    numbers.insert(numbers.end(), {dims[d], divisor_word(dims[d], is_wide), from[d], to[d]});
  }
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(source), 4, std::move(numbers),
                                                 grid_for(context, lines)));
  return scatter_kernel(spec, std::move(kernel), context);
}

KernelResult make_scatter_nd(const KernelSpec& spec, RankContext& context) {
  const Dims& data = spec.inputs[0].dims;
  const Dims& indices = spec.inputs[1].dims;
  const auto depth = static_cast<std::size_t>(indices.back());
  std::int64_t row = 1;
  for (std::size_t d = depth; d < data.size(); ++d) row *= data[d];
  std::int64_t items = 1;
  for (std::size_t d = 0; d + 1 < indices.size(); ++d) items *= indices[d];
  if (spec.inputs[2].element_count() != items * row) {
    return invalid_argument("updates have shape ", spec.inputs[2].dims, " for data ", data,
                            " and indices ", indices);
  }
  if (items * row == 0) return plain_copy(spec, context);
  const bool is_wide = needs_wide_index({row});
  TUTTI_ASSIGN_OR_RETURN(KernelSource source, scatter_source(spec, true, is_wide));
  source.defines.emplace_back("DEPTH", std::to_string(depth));
  const Dims strides = contiguous_strides(data);
  std::vector<std::int64_t> numbers = {row, items, context.add_fault_source(spec.node.describe())};
  for (std::size_t k = 0; k < depth; ++k) numbers.insert(numbers.end(), {data[k], strides[k]});
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(source), 4, std::move(numbers),
                                                 grid_for(context, row)));
  return scatter_kernel(spec, std::move(kernel), context);
}

}  // namespace

void register_index_kernels(KernelTable* table) {
  table->add("Gather", make_gather);
  table->add("GatherElements", make_gather_elements);
  table->add("GatherND", make_gather_nd);
  table->add("ScatterElements", make_scatter_elements);
  table->add("ScatterND", make_scatter_nd);
}

}  // namespace tutti::cuda
