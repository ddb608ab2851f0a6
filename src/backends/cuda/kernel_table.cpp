#include "backends/cuda/kernels.h"

namespace tutti::cuda {

const KernelTable& kernel_table() {
  static const KernelTable table = [] {
    KernelTable all;
    register_pointwise_kernels(&all);
    register_copy_kernels(&all);
    register_index_kernels(&all);
    register_scan_kernels(&all);
    register_generate_kernels(&all);
    register_reduce_kernels(&all);
    register_norm_kernels(&all);
    register_product_kernels(&all);
    register_conv_kernels(&all);
    register_pool_kernels(&all);
    register_resize_kernels(&all);
    register_attention_kernels(&all);
    register_exchange_kernels(&all);
    register_pipelined_attention(&all);
    register_fused_exchange(&all);
    register_fused_kernels(&all);
    return all;
  }();
  return table;
}

KernelResult make_kernel(const KernelSpec& spec, RankContext& context) {
  const KernelFactory factory = kernel_table().find(spec.node.type());
  if (factory == nullptr) {
    return unimplemented("the cuda backend has no kernel for ", spec.node.type());
  }
  return factory(spec, context);
}

AxisView view_axis(const Dims& dims, std::int64_t axis) {
  AxisView view;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto at = static_cast<std::int64_t>(d);
    (at < axis ? view.outer : at == axis ? view.size : view.inner) *= dims[d];
  }
  return view;
}

}  // namespace tutti::cuda
