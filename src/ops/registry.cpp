#include "ops/families.h"

namespace tutti {

void register_all_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  register_pointwise_ops(ops, lowerings);
  register_movement_ops(ops, lowerings);
  register_reduce_ops(ops, lowerings);
  register_product_ops(ops, lowerings);
  register_conv_ops(ops, lowerings);
  register_norm_ops(ops, lowerings);
  register_attention_ops(ops, lowerings);
  register_exchange_ops(ops, lowerings);
  register_halo_ops(ops, lowerings);
  register_fused_ops(ops);
}

}  // namespace tutti
