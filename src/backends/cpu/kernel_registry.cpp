#include "backends/cpu/kernel_registry.h"

#include <cassert>

#include "backends/cpu/kernels.h"

namespace tutti::cpu {

void KernelRegistry::add(std::string_view op_type, KernelFactory factory) {
  [[maybe_unused]] const bool inserted = factories_.emplace(op_type, factory).second;
  assert(inserted);
}

KernelFactory KernelRegistry::find(std::string_view op_type) const {
  const auto it = factories_.find(op_type);
  return it == factories_.end() ? nullptr : it->second;
}

const KernelRegistry& kernel_registry() {
  static const KernelRegistry registry = [] {
    KernelRegistry all;
    register_pointwise_kernels(&all);
    register_movement_kernels(&all);
    register_reduce_kernels(&all);
    register_product_kernels(&all);
    register_conv_kernels(&all);
    register_norm_kernels(&all);
    register_attention_kernels(&all);
    register_exchange_kernels(&all);
    register_fused_kernels(&all);
    return all;
  }();
  return registry;
}

}  // namespace tutti::cpu
