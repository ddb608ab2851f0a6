// Which function makes the CUDA kernel of a core operator. One register_* function a kernel file.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "backends/cuda/rank_context.h"
#include "runtime/backend.h"
#include "runtime/lambda_kernel.h"

namespace tutti::cuda {

using KernelResult = Result<std::unique_ptr<Kernel>>;
// The error starts with what is wrong; the caller puts the node in front.
using KernelFactory = KernelResult (*)(const KernelSpec& spec, RankContext& context);

class KernelTable {
 public:
  void add(std::string_view op_type, KernelFactory factory) {
    factories_.emplace(op_type, factory);
  }
  KernelFactory find(std::string_view op_type) const {
    const auto it = factories_.find(op_type);
    return it == factories_.end() ? nullptr : it->second;
  }

 private:
  std::map<std::string, KernelFactory, std::less<>> factories_;
};

const KernelTable& kernel_table();

// The kernel of a node; UNIMPLEMENTED when the table has none.
KernelResult make_kernel(const KernelSpec& spec, RankContext& context);

void register_pointwise_kernels(KernelTable* table);
void register_copy_kernels(KernelTable* table);
void register_index_kernels(KernelTable* table);
void register_scan_kernels(KernelTable* table);
void register_generate_kernels(KernelTable* table);
void register_reduce_kernels(KernelTable* table);
void register_norm_kernels(KernelTable* table);
void register_product_kernels(KernelTable* table);
void register_pipelined_attention(KernelTable* table);
void register_fused_exchange(KernelTable* table);
void register_conv_kernels(KernelTable* table);
void register_pool_kernels(KernelTable* table);
void register_resize_kernels(KernelTable* table);
void register_attention_kernels(KernelTable* table);
void register_fused_kernels(KernelTable* table);
void register_exchange_kernels(KernelTable* table);

// A node without results to compute.
inline std::unique_ptr<Kernel> make_empty_kernel() {
  return make_lambda_kernel([](const KernelArgs&) { return Status(); });
}

inline const void* optional_input(const KernelArgs& args, std::size_t i) {
  return i < args.inputs.size() ? args.inputs[i] : nullptr;
}
inline bool has_input(const KernelSpec& spec, std::size_t i) {
  return i < spec.inputs.size() && spec.inputs[i].dtype != DType::kUndefined;
}

// A tensor seen along one axis: [outer, size, inner].
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
};
AxisView view_axis(const Dims& dims, std::int64_t axis);

}  // namespace tutti::cuda
