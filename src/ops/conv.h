// What the files of the convolution family share.
#pragma once

#include "ops/lowering.h"

namespace tutti {

// Window geometry along the spatial dimensions: what ONNX's Conv and Pool attributes say, with the
// defaults filled in. `pads` holds all begins, then all ends.
struct Window {
  std::vector<std::int64_t> kernel;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::vector<std::int64_t> pads;

  // Positions that the dilated kernel spans along dimension i.
  std::int64_t extent(std::size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
  std::int64_t pad_sum(std::size_t i) const { return pads[i] + pads[i + kernel.size()]; }
};

// Fills in defaults and checks lengths and ranges.
Result<Window> make_window(std::vector<std::int64_t> kernel, std::vector<std::int64_t> strides,
                           std::vector<std::int64_t> dilations, std::vector<std::int64_t> pads);

// The sizes of dimensions [first, rank) as numbers, for kernels; the error names `what`.
Result<std::vector<std::int64_t>> constant_sizes(const Value& value, std::size_t first,
                                                 std::string_view what);

// Adds the factors of spatial dimension `d` (of input 0 and output 0, of sizes `in` and `out`): the
// output's rows, in groups of `group` rows that `window` counts, read windows of the input's. Sizes
// of 1 or no whole number of groups leave the dimension whole.
void add_window_factors(FactorMap* map, std::size_t d, const Dim& in, const Dim& out,
                        const WindowMap& window, std::int64_t group = 1);
// The dimension stays whole on both sides.
void add_whole_factors(FactorMap* map, std::size_t d, const Dim& in, const Dim& out);

void register_conv_lowerings(LoweringRegistry* lowerings);
void register_pool_ops(OpRegistry* ops, LoweringRegistry* lowerings);
void register_resize_ops(OpRegistry* ops, LoweringRegistry* lowerings);
// "NOTSET", "VALID", "SAME_UPPER" or "SAME_LOWER" as explicit pads for a window over `x`.
Result<std::vector<std::int64_t>> resolve_auto_pad(const LoweringContext& context, const Value& x,
                                                   const Window& window);

}  // namespace tutti
