// Between the files of the data movement kernels.
#pragma once

#include "backends/cpu/kernel_registry.h"

namespace tutti::cpu {

using KernelResult = Result<std::unique_ptr<Kernel>>;

KernelResult make_transpose(const KernelSpec& spec, CpuContext& context);
KernelResult make_expand(const KernelSpec& spec, CpuContext& context);
KernelResult make_slice(const KernelSpec& spec, CpuContext& context);
KernelResult make_tile(const KernelSpec& spec, CpuContext& context);
KernelResult make_concat(const KernelSpec& spec, CpuContext& context);
KernelResult make_split(const KernelSpec& spec, CpuContext& context);
KernelResult make_pad(const KernelSpec& spec, CpuContext& context);

KernelResult make_gather(const KernelSpec& spec, CpuContext& context);
KernelResult make_gather_elements(const KernelSpec& spec, CpuContext& context);
KernelResult make_gather_nd(const KernelSpec& spec, CpuContext& context);
KernelResult make_scatter_elements(const KernelSpec& spec, CpuContext& context);
KernelResult make_scatter_nd(const KernelSpec& spec, CpuContext& context);

KernelResult make_sizes(const KernelSpec& spec, CpuContext& context);
KernelResult make_fill(const KernelSpec& spec, CpuContext& context);
KernelResult make_iota(const KernelSpec& spec, CpuContext& context);

KernelResult make_cum_sum(const KernelSpec& spec, CpuContext& context);
KernelResult make_trilu(const KernelSpec& spec, CpuContext& context);
KernelResult make_reverse_sequence(const KernelSpec& spec, CpuContext& context);
KernelResult make_top_k(const KernelSpec& spec, CpuContext& context);
KernelResult make_arg(const KernelSpec& spec, CpuContext& context);  // ArgMax and ArgMin

// A tensor seen along one axis: [outer, size, inner].
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
};
AxisView view_axis(const Dims& dims, std::int64_t axis);

// Pieces of a loop over `count` items of `bytes` each that are worth waking a thread for.
std::int64_t grain_for(std::int64_t bytes);

// An index from a tensor of i32 or i64.
inline std::int64_t index_at(const void* indices, bool is_wide, std::int64_t i) {
  return is_wide ? static_cast<const std::int64_t*>(indices)[i]
                 : static_cast<const std::int32_t*>(indices)[i];
}

}  // namespace tutti::cpu
