// Transpose, Expand, Slice, Tile, Concat, Split: one strided copy each, or one an operand.
#include "backends/cpu/lambda_kernel.h"
#include "backends/cpu/movement_kernels.h"
#include "backends/cpu/strided.h"
#include "backends/cpu/strided_copy.h"

namespace tutti::cpu {
namespace {

std::unique_ptr<Kernel> copy_kernel(StridedCopy copy, ThreadPool* pool) {
  return make_lambda_kernel([copy = std::move(copy), pool](const KernelArgs& args) {
    copy.run(args.inputs[0], args.outputs[0], pool);
    return Status();
  });
}

Status expect_dims(const Dims& actual, const Dims& expected) {
  if (actual == expected) return {};
  return invalid_argument("the output has shape ", actual, "; expected ", expected);
}

// A range of elements along an axis, with everything bound.
Result<std::int64_t> range_length(std::int64_t start, std::int64_t end, std::int64_t step,
                                  std::int64_t size, std::int64_t axis) {
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t span = step > 0 ? end - start : start - end;
  const std::int64_t stride = step > 0 ? step : -step;
  const std::int64_t length = span <= 0 ? 0 : (span + stride - 1) / stride;
  const bool fits = start >= low && start <= size && end >= low && end <= size;
  // An empty range reads nothing; any other starts at an element.
  if (!fits || (length > 0 && (start < 0 || start >= size))) {
    return invalid_argument("range [", start, ", ", end, ") by ", step, " on axis ", axis,
                            " does not lie in [0, ", size, ")");
  }
  return length;
}

}  // namespace

KernelResult make_transpose(const KernelSpec& spec, CpuContext& context) {
  const Dims source = contiguous_strides(spec.inputs[0].dims);
  Dims strides;
  Dims dims;
  for (const std::int64_t axis : spec.node.attr_ints("perm")) {
    strides.push_back(source[static_cast<std::size_t>(axis)]);
    dims.push_back(spec.inputs[0].dims[static_cast<std::size_t>(axis)]);
  }
  TUTTI_RETURN_IF_ERROR(expect_dims(spec.outputs[0].dims, dims));
  return copy_kernel(
      StridedCopy(dims, strides, contiguous_strides(dims), dtype_size(spec.inputs[0].dtype)),
      context.pool);
}

KernelResult make_expand(const KernelSpec& spec, CpuContext& context) {
  const Dims& dims = spec.outputs[0].dims;
  TUTTI_ASSIGN_OR_RETURN(const Dims strides, broadcast_strides(spec.inputs[0].dims, dims));
  return copy_kernel(
      StridedCopy(dims, strides, contiguous_strides(dims), dtype_size(spec.inputs[0].dtype)),
      context.pool);
}

KernelResult make_slice(const KernelSpec& spec, CpuContext& context) {
  const Dims& source = spec.inputs[0].dims;
  const std::vector<std::int64_t> axes = spec.node.attr_ints("axes");
  const std::vector<std::int64_t> steps = spec.node.attr_ints("steps");
  TUTTI_ASSIGN_OR_RETURN(const Dims starts, evaluate(spec.node.attr_dims("starts"), spec.symbols));
  TUTTI_ASSIGN_OR_RETURN(const Dims ends, evaluate(spec.node.attr_dims("ends"), spec.symbols));
  Dims dims = source;
  Dims strides = contiguous_strides(source);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    TUTTI_ASSIGN_OR_RETURN(dims[axis],
                           range_length(starts[i], ends[i], steps[i], source[axis], axes[i]));
    offset += starts[i] * strides[axis];
    strides[axis] *= steps[i];
  }
  TUTTI_RETURN_IF_ERROR(expect_dims(spec.outputs[0].dims, dims));
  return copy_kernel(StridedCopy(dims, strides, contiguous_strides(dims),
                                 dtype_size(spec.inputs[0].dtype), offset),
                     context.pool);
}

KernelResult make_tile(const KernelSpec& spec, CpuContext& context) {
  const Dims& source = spec.inputs[0].dims;
  TUTTI_ASSIGN_OR_RETURN(const Dims repeats,
                         evaluate(spec.node.attr_dims("repeats"), spec.symbols));
  Dims expected;
  for (std::size_t d = 0; d < source.size(); ++d) expected.push_back(source[d] * repeats[d]);
  TUTTI_RETURN_IF_ERROR(expect_dims(spec.outputs[0].dims, expected));
  // Each dimension is (repeat, element).
  const Dims dense = contiguous_strides(source);
  const Dims target = contiguous_strides(expected);
  Dims dims;
  Dims source_strides;
  Dims target_strides;
  for (std::size_t d = 0; d < source.size(); ++d) {
    dims.insert(dims.end(), {repeats[d], source[d]});
    source_strides.insert(source_strides.end(), {0, dense[d]});
    target_strides.insert(target_strides.end(), {target[d] * source[d], target[d]});
  }
  return copy_kernel(
      StridedCopy(dims, source_strides, target_strides, dtype_size(spec.inputs[0].dtype)),
      context.pool);
}

KernelResult make_concat(const KernelSpec& spec, CpuContext& context) {
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
    copies.emplace_back(input.dims, contiguous_strides(input.dims), target, dtype_size(input.dtype),
                        0, offset);
    offset += input.dims[axis] * target[axis];
  }
  return make_lambda_kernel(
      [copies = std::move(copies), pool = context.pool](const KernelArgs& args) {
        for (std::size_t i = 0; i < copies.size(); ++i) {
          copies[i].run(args.inputs[i], args.outputs[0], pool);
        }
        return Status();
      });
}

KernelResult make_split(const KernelSpec& spec, CpuContext& context) {
  const auto axis = static_cast<std::size_t>(spec.node.attr_int("axis"));
  const Dims source = contiguous_strides(spec.inputs[0].dims);
  std::vector<StridedCopy> copies;
  std::int64_t start = 0;
  for (const TensorDesc& output : spec.outputs) {
    copies.emplace_back(output.dims, source, contiguous_strides(output.dims),
                        dtype_size(output.dtype), start * source[axis]);
    start += output.dims[axis];
  }
  if (start != spec.inputs[0].dims[axis]) {
    return invalid_argument("the sizes add up to ", start, "; axis ", axis, " has ",
                            spec.inputs[0].dims[axis]);
  }
  return make_lambda_kernel(
      [copies = std::move(copies), pool = context.pool](const KernelArgs& args) {
        for (std::size_t i = 0; i < copies.size(); ++i) {
          copies[i].run(args.inputs[0], args.outputs[i], pool);
        }
        return Status();
      });
}

}  // namespace tutti::cpu
