#include "runtime/strided_box.h"

#include <utility>

#include "runtime/strides.h"

namespace tutti {
namespace {

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

Result<StridedBox> transpose_box(const KernelSpec& spec) {
  const Dims source = contiguous_strides(spec.inputs[0].dims);
  StridedBox box;
  for (const std::int64_t axis : spec.node.attr_ints("perm")) {
    box.source_strides.push_back(source[static_cast<std::size_t>(axis)]);
    box.dims.push_back(spec.inputs[0].dims[static_cast<std::size_t>(axis)]);
  }
  TUTTI_RETURN_IF_ERROR(expect_dims(spec.outputs[0].dims, box.dims));
  box.target_strides = contiguous_strides(box.dims);
  box.element_size = dtype_size(spec.inputs[0].dtype);
  return box;
}

Result<StridedBox> expand_box(const KernelSpec& spec) {
  StridedBox box;
  box.dims = spec.outputs[0].dims;
  TUTTI_ASSIGN_OR_RETURN(box.source_strides, broadcast_strides(spec.inputs[0].dims, box.dims));
  box.target_strides = contiguous_strides(box.dims);
  box.element_size = dtype_size(spec.inputs[0].dtype);
  return box;
}

Result<StridedBox> slice_box(const KernelSpec& spec) {
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
  return box;
}

Result<StridedBox> tile_box(const KernelSpec& spec) {
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
  return box;
}

Result<std::vector<StridedBox>> concat_boxes(const KernelSpec& spec) {
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
  std::vector<StridedBox> boxes;
  std::int64_t offset = 0;
  for (const TensorDesc& input : spec.inputs) {
    StridedBox box{input.dims, contiguous_strides(input.dims), target, dtype_size(input.dtype)};
    box.target_offset = offset;
    boxes.push_back(std::move(box));
    offset += input.dims[axis] * target[axis];
  }
  return boxes;
}

Result<std::vector<StridedBox>> split_boxes(const KernelSpec& spec) {
  const auto axis = static_cast<std::size_t>(spec.node.attr_int("axis"));
  const Dims source = contiguous_strides(spec.inputs[0].dims);
  std::vector<StridedBox> boxes;
  std::int64_t start = 0;
  for (const TensorDesc& output : spec.outputs) {
    StridedBox box{output.dims, source, contiguous_strides(output.dims), dtype_size(output.dtype)};
    box.source_offset = start * source[axis];
    boxes.push_back(std::move(box));
    start += output.dims[axis];
  }
  if (start != spec.inputs[0].dims[axis]) {
    return invalid_argument("the sizes add up to ", start, "; axis ", axis, " has ",
                            spec.inputs[0].dims[axis]);
  }
  return boxes;
}

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

}  // namespace tutti
