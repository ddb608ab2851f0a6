// Transpose, Expand, Slice, Tile, Concat, Split, Pad: one strided copy each, or one an operand.
#include "backends/cpu/strided.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/strided_copy.h"

namespace tutti::cuda {
namespace {

KernelResult make_copy(RankContext& context, const StridedBox& box) {
  TUTTI_ASSIGN_OR_RETURN(StridedCopy copy, StridedCopy::create(context, box));
  return make_lambda_kernel([copy = std::move(copy)](const KernelArgs& args) mutable {
    return copy.run(args.inputs[0], args.outputs[0]);
  });
}

Status expect_dims(const Dims& actual, const Dims& expected) {
  if (actual == expected) return {};
  return invalid_argument("the output has shape ", actual, "; expected ", expected);
}

KernelResult make_transpose(const KernelSpec& spec, RankContext& context) {
  const Dims source = contiguous_strides(spec.inputs[0].dims);
  StridedBox box;
  for (const std::int64_t axis : spec.node.attr_ints("perm")) {
    box.source_strides.push_back(source[static_cast<std::size_t>(axis)]);
    box.dims.push_back(spec.inputs[0].dims[static_cast<std::size_t>(axis)]);
  }
  TUTTI_RETURN_IF_ERROR(expect_dims(spec.outputs[0].dims, box.dims));
  box.target_strides = contiguous_strides(box.dims);
  box.element_size = dtype_size(spec.inputs[0].dtype);
  return make_copy(context, box);
}

KernelResult make_expand(const KernelSpec& spec, RankContext& context) {
  StridedBox box;
  box.dims = spec.outputs[0].dims;
  TUTTI_ASSIGN_OR_RETURN(box.source_strides, cpu::broadcast_strides(spec.inputs[0].dims, box.dims));
  box.target_strides = contiguous_strides(box.dims);
  box.element_size = dtype_size(spec.inputs[0].dtype);
  return make_copy(context, box);
}

// A range of elements along an axis, with everything bound.
Result<std::int64_t> range_length(std::int64_t start, std::int64_t end, std::int64_t step,
                                  std::int64_t size, std::int64_t axis) {
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t span = step > 0 ? end - start : start - end;
  const std::int64_t stride = step > 0 ? step : -step;
  const std::int64_t length = span <= 0 ? 0 : (span + stride - 1) / stride;
  const bool fits = start >= low && start <= size && end >= low && end <= size;
  if (!fits || (length > 0 && (start < 0 || start >= size))) {
    return invalid_argument("range [", start, ", ", end, ") by ", step, " on axis ", axis,
                            " does not lie in [0, ", size, ")");
  }
  return length;
}

KernelResult make_slice(const KernelSpec& spec, RankContext& context) {
  const Dims& source = spec.inputs[0].dims;
  const std::vector<std::int64_t> axes = spec.node.attr_ints("axes");
  const std::vector<std::int64_t> steps = spec.node.attr_ints("steps");
  TUTTI_ASSIGN_OR_RETURN(const Dims starts, evaluate(spec.node.attr_dims("starts"), spec.symbols));
  TUTTI_ASSIGN_OR_RETURN(const Dims ends, evaluate(spec.node.attr_dims("ends"), spec.symbols));
  StridedBox box;
  box.dims = source;
  box.source_strides = contiguous_strides(source);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    TUTTI_ASSIGN_OR_RETURN(box.dims[axis],
                           range_length(starts[i], ends[i], steps[i], source[axis], axes[i]));
    box.source_offset += starts[i] * box.source_strides[axis];
    box.source_strides[axis] *= steps[i];
  }
  TUTTI_RETURN_IF_ERROR(expect_dims(spec.outputs[0].dims, box.dims));
  box.target_strides = contiguous_strides(box.dims);
  box.element_size = dtype_size(spec.inputs[0].dtype);
  return make_copy(context, box);
}

KernelResult make_tile(const KernelSpec& spec, RankContext& context) {
  const Dims& source = spec.inputs[0].dims;
  TUTTI_ASSIGN_OR_RETURN(const Dims repeats,
                         evaluate(spec.node.attr_dims("repeats"), spec.symbols));
  Dims expected;
  for (std::size_t d = 0; d < source.size(); ++d) expected.push_back(source[d] * repeats[d]);
  TUTTI_RETURN_IF_ERROR(expect_dims(spec.outputs[0].dims, expected));
  // Each dimension is (repeat, element).
  const Dims dense = contiguous_strides(source);
  const Dims target = contiguous_strides(expected);
  StridedBox box;
  for (std::size_t d = 0; d < source.size(); ++d) {
    box.dims.insert(box.dims.end(), {repeats[d], source[d]});
    box.source_strides.insert(box.source_strides.end(), {0, dense[d]});
    box.target_strides.insert(box.target_strides.end(), {target[d] * source[d], target[d]});
  }
  box.element_size = dtype_size(spec.inputs[0].dtype);
  return make_copy(context, box);
}

KernelResult make_concat(const KernelSpec& spec, RankContext& context) {
  const auto axis = static_cast<std::size_t>(spec.node.attr_int("axis"));
  Dims expected = spec.inputs[0].dims;
  expected[axis] = 0;
  for (const TensorDesc& input : spec.inputs) {
    for (std::size_t d = 0; d < expected.size(); ++d) {
      if (d == axis) {
        expected[d] += input.dims[d];
      } else if (input.dims[d] != expected[d]) {
        return invalid_argument("operands have shapes ", spec.inputs[0].dims, " and ", input.dims,
                                ", which differ beside axis ", axis);
      }
    }
  }
  TUTTI_RETURN_IF_ERROR(expect_dims(spec.outputs[0].dims, expected));
  const Dims target = contiguous_strides(expected);
  std::vector<StridedCopy> copies;
  std::int64_t offset = 0;
  for (const TensorDesc& input : spec.inputs) {
    StridedBox box{input.dims, contiguous_strides(input.dims), target, dtype_size(input.dtype)};
    box.target_offset = offset;
    TUTTI_ASSIGN_OR_RETURN(StridedCopy copy, StridedCopy::create(context, box));
    copies.push_back(std::move(copy));
    offset += input.dims[axis] * target[axis];
  }
  return make_lambda_kernel([copies = std::move(copies)](const KernelArgs& args) mutable {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(copies[i].run(args.inputs[i], args.outputs[0]));
    }
    return Status();
  });
}

KernelResult make_split(const KernelSpec& spec, RankContext& context) {
  const auto axis = static_cast<std::size_t>(spec.node.attr_int("axis"));
  const Dims source = contiguous_strides(spec.inputs[0].dims);
  std::vector<StridedCopy> copies;
  std::int64_t start = 0;
  for (const TensorDesc& output : spec.outputs) {
    StridedBox box{output.dims, source, contiguous_strides(output.dims), dtype_size(output.dtype)};
    box.source_offset = start * source[axis];
    TUTTI_ASSIGN_OR_RETURN(StridedCopy copy, StridedCopy::create(context, box));
    copies.push_back(std::move(copy));
    start += output.dims[axis];
  }
  if (start != spec.inputs[0].dims[axis]) {
    return invalid_argument("the sizes add up to ", start, "; axis ", axis, " has ",
                            spec.inputs[0].dims[axis]);
  }
  return make_lambda_kernel([copies = std::move(copies)](const KernelArgs& args) mutable {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(copies[i].run(args.inputs[0], args.outputs[i]));
    }
    return Status();
  });
}

struct Borders {
  Dims before;
  Dims after;
};

Result<Borders> bind_borders(const KernelSpec& spec) {
  const std::vector<std::int64_t> axes = spec.node.attr_ints("axes");
  TUTTI_ASSIGN_OR_RETURN(const Dims before, evaluate(spec.node.attr_dims("before"), spec.symbols));
  TUTTI_ASSIGN_OR_RETURN(const Dims after, evaluate(spec.node.attr_dims("after"), spec.symbols));
  const Dims& source = spec.inputs[0].dims;
  Borders borders{Dims(source.size(), 0), Dims(source.size(), 0)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    if (before[i] < 0 || after[i] < 0) {
      return invalid_argument("pads ", before[i], " and ", after[i], " of axis ", axis,
                              "; expected none below 0");
    }
    borders.before[axis] = before[i];
    borders.after[axis] = after[i];
  }
  for (std::size_t d = 0; d < source.size(); ++d) {
    if (spec.outputs[0].dims[d] != source[d] + borders.before[d] + borders.after[d]) {
      return invalid_argument("the output has shape ", spec.outputs[0].dims, ", which ", source,
                              " with pads ", borders.before, " and ", borders.after,
                              " does not give");
    }
  }
  return borders;
}

// The value everywhere first, then the source over it.
KernelResult make_constant_pad(const KernelSpec& spec, const Borders& borders,
                               RankContext& context) {
  const TensorDesc& target = spec.outputs[0];
  const Dims strides = contiguous_strides(target.dims);
  StridedBox inner{spec.inputs[0].dims, contiguous_strides(spec.inputs[0].dims), strides,
                   dtype_size(target.dtype)};
  for (std::size_t d = 0; d < target.dims.size(); ++d) {
    inner.target_offset += borders.before[d] * strides[d];
  }
  StridedBox all{{target.element_count()}, {0}, {1}, dtype_size(target.dtype)};
  TUTTI_ASSIGN_OR_RETURN(StridedCopy copy, StridedCopy::create(context, inner));
  TUTTI_ASSIGN_OR_RETURN(StridedCopy fill, StridedCopy::create(context, all));
  return make_lambda_kernel([copy = std::move(copy), fill = std::move(fill),
                             bytes = target.byte_size(),
                             stream = context.stream](const KernelArgs& args) mutable {
    if (const void* value = optional_input(args, 1); value != nullptr) {
      TUTTI_RETURN_IF_ERROR(fill.run(value, args.outputs[0]));
    } else {
      TUTTI_CUDA(cudaMemsetAsync(args.outputs[0], 0, bytes, stream));
    }
    return copy.run(args.inputs[0], args.outputs[0]);
  });
}

KernelResult make_mirrored_pad(const KernelSpec& spec, const Borders& borders,
                               const std::string& mode, RankContext& context) {
  Dims source = spec.inputs[0].dims;
  Dims target = spec.outputs[0].dims;
  Dims before = borders.before;
  if (target.empty()) {
    source = target = {1};
    before = {0};
  }
  const Dims strides = contiguous_strides(source);
  const std::int64_t total = element_count(target);
  const bool is_wide = needs_wide_index({total});
  std::vector<std::int64_t> numbers = {total};
  for (std::size_t d = 0; d < target.size(); ++d) {
    if (source[d] == 0 && target[d] > 0) {
      return invalid_argument("mode ", mode, " pads axis ", d, " of size 0");
    }
    numbers.insert(numbers.end(),
                   {target[d], divisor_word(target[d], is_wide), source[d], before[d], strides[d]});
  }
  KernelSource code;
  code.entry = "pad";
  code.files = {"pad.cuh"};
  define_index(is_wide, &code);
  code.defines.emplace_back("RANK", std::to_string(target.size()));
  code.defines.emplace_back("WORD", std::to_string(dtype_size(spec.inputs[0].dtype)));
  code.defines.emplace_back("MODE", mode == "reflect" ? "0" : mode == "edge" ? "1" : "2");
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(code), 2, std::move(numbers),
                                                 grid_for(context, total)));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.outputs[0]});
  });
}

KernelResult make_pad(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const Borders borders, bind_borders(spec));
  const std::string mode = spec.node.attr_string("mode", "constant");
  if (mode == "constant") return make_constant_pad(spec, borders, context);
  return make_mirrored_pad(spec, borders, mode, context);
}

}  // namespace

void register_copy_kernels(KernelTable* table) {
  table->add("Transpose", make_transpose);
  table->add("Expand", make_expand);
  table->add("Slice", make_slice);
  table->add("Tile", make_tile);
  table->add("Concat", make_concat);
  table->add("Split", make_split);
  table->add("Pad", make_pad);
}

}  // namespace tutti::cuda
