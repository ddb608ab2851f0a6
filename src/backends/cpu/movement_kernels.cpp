#include "backends/cpu/movement_kernels.h"

#include <algorithm>

#include "backends/cpu/kernels.h"

namespace tutti::cpu {

AxisView view_axis(const Dims& dims, std::int64_t axis) {
  AxisView view;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto at = static_cast<std::int64_t>(d);
    (at < axis ? view.outer : at == axis ? view.size : view.inner) *= dims[d];
  }
  return view;
}

std::int64_t grain_for(std::int64_t bytes) {
  constexpr std::int64_t kPieceBytes = 64 << 10;
  return std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(bytes, 1));
}

void register_movement_kernels(KernelRegistry* registry) {
  registry->add("Transpose", make_transpose);
  registry->add("Expand", make_expand);
  registry->add("Slice", make_slice);
  registry->add("Tile", make_tile);
  registry->add("Concat", make_concat);
  registry->add("Split", make_split);
  registry->add("Pad", make_pad);
  registry->add("Gather", make_gather);
  registry->add("GatherElements", make_gather_elements);
  registry->add("GatherND", make_gather_nd);
  registry->add("ScatterElements", make_scatter_elements);
  registry->add("ScatterND", make_scatter_nd);
  registry->add("Sizes", make_sizes);
  registry->add("Fill", make_fill);
  registry->add("Iota", make_iota);
  registry->add("CumSum", make_cum_sum);
  registry->add("Trilu", make_trilu);
  registry->add("ReverseSequence", make_reverse_sequence);
  registry->add("TopK", make_top_k);
  registry->add("ArgMax", make_arg);
  registry->add("ArgMin", make_arg);
}

}  // namespace tutti::cpu
