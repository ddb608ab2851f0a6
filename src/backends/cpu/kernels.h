// The kernel families of the CPU backend: one function a file group, called by kernel_registry().
#pragma once

#include "backends/cpu/kernel_registry.h"

namespace tutti::cpu {

void register_pointwise_kernels(KernelRegistry* registry);
void register_movement_kernels(KernelRegistry* registry);
void register_reduce_kernels(KernelRegistry* registry);
void register_product_kernels(KernelRegistry* registry);
void register_conv_kernels(KernelRegistry* registry);
void register_norm_kernels(KernelRegistry* registry);
void register_attention_kernels(KernelRegistry* registry);
void register_fused_kernels(KernelRegistry* registry);
void register_exchange_kernels(KernelRegistry* registry);

}  // namespace tutti::cpu
