#include "backends/cpu/conv_slices.h"

#include <algorithm>

namespace tutti::cpu {
namespace {

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

ConvSlice slice_of(const ConvShape& s, std::size_t axis, std::int64_t begin, std::int64_t end) {
  ConvSlice slice;
  slice.out_begin = begin;
  slice.out_end = end;
  const std::int64_t stride = s.strides[axis];
  const std::int64_t pad = s.pads_begin[axis];
  const std::int64_t extent = s.extent(axis);
  if (s.is_transposed) {
    // Input i reaches outputs [i * stride - pad, i * stride - pad + extent).
    const std::int64_t first = ceil_divide(begin + pad - (extent - 1), stride);
    const std::int64_t last = floor_divide(end - 1 + pad, stride);
    slice.in_begin = std::clamp<std::int64_t>(first, 0, s.in[axis]);
    slice.in_end = std::clamp<std::int64_t>(last + 1, 0, s.in[axis]);
    slice.pad_begin = begin - (slice.in_begin * stride - pad);
    slice.pad_end = (slice.in_end - 1) * stride - pad + extent - end;
  } else {
    const std::int64_t first = begin * stride - pad;
    const std::int64_t last = (end - 1) * stride - pad + extent;
    slice.in_begin = std::clamp<std::int64_t>(first, 0, s.in[axis]);
    slice.in_end = std::clamp<std::int64_t>(last, 0, s.in[axis]);
    slice.pad_begin = slice.in_begin - first;
    slice.pad_end = last - slice.in_end;
  }
  return slice;
}

}  // namespace

std::size_t slice_axis(const ConvShape& s) {
  std::size_t axis = 0;
  for (std::size_t i = 1; i + 1 < s.rank(); ++i) {
    if (s.out[i] > s.out[axis]) axis = i;
  }
  return axis;
}

std::vector<ConvSlice> cut_slices(const ConvShape& s, std::size_t axis, int workers) {
  constexpr std::int64_t kSliceFloats = 256 * 1024;  // input and output of a slice: 1 MB
  const std::int64_t out_row =
      s.out_channels *
      std::max<std::int64_t>(1, element_count(s.out) / std::max<std::int64_t>(1, s.out[axis]));
  const std::int64_t in_row =
      s.in_channels *
      std::max<std::int64_t>(1, element_count(s.in) / std::max<std::int64_t>(1, s.in[axis]));
  const std::int64_t in_rows_per_out = s.is_transposed ? 1 : s.strides[axis];
  const std::int64_t per_row = std::max<std::int64_t>(1, out_row + in_row * in_rows_per_out);
  // Few rows would mostly read what the neighbours read too.
  const std::int64_t least = std::max<std::int64_t>(4, 2 * s.extent(axis));
  std::int64_t rows = std::max(least, kSliceFloats / per_row);
  if (workers > 1) {
    const std::int64_t fair = (s.out[axis] * s.batch + 2 * workers - 1) / (2 * workers);
    rows = std::min(rows, std::max(least, fair));
  }
  const std::int64_t count = std::max<std::int64_t>(1, (s.out[axis] + rows - 1) / rows);
  rows = (s.out[axis] + count - 1) / count;
  std::vector<ConvSlice> slices;
  for (std::int64_t begin = 0; begin < s.out[axis]; begin += rows) {
    slices.push_back(slice_of(s, axis, begin, std::min(s.out[axis], begin + rows)));
    const ConvSlice& slice = slices.back();
    if (slice.in_end <= slice.in_begin || slice.pad_begin < 0 ||
        (!s.is_transposed && slice.pad_end < 0)) {
      return {};
    }
  }
  return slices;
}

}  // namespace tutti::cpu
