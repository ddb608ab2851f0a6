// The operator families: one function a file group, called by register_all_ops().
#pragma once

#include "ops/lowering.h"

namespace tutti {

void register_pointwise_ops(OpRegistry* ops, LoweringRegistry* lowerings);
void register_movement_ops(OpRegistry* ops, LoweringRegistry* lowerings);
void register_reduce_ops(OpRegistry* ops, LoweringRegistry* lowerings);
void register_product_ops(OpRegistry* ops, LoweringRegistry* lowerings);
void register_conv_ops(OpRegistry* ops, LoweringRegistry* lowerings);
void register_norm_ops(OpRegistry* ops, LoweringRegistry* lowerings);
void register_attention_ops(OpRegistry* ops, LoweringRegistry* lowerings);
void register_exchange_ops(OpRegistry* ops, LoweringRegistry* lowerings);
void register_fused_ops(OpRegistry* ops);
void register_halo_ops(OpRegistry* ops, LoweringRegistry* lowerings);

}  // namespace tutti
