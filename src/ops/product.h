// What the files of the product family share.
#pragma once

#include <string_view>

#include "ops/lowering.h"

namespace tutti {

// "" relu gelu gelu_tanh silu sigmoid tanh: what Linear may apply before it adds the residual.
bool is_linear_activation(std::string_view name);

// numpy.matmul: operands of rank 1 become matrices and lose that dimension again.
Value* build_matmul(GraphBuilder& b, Value* x, Value* y);

void register_product_lowerings(LoweringRegistry* lowerings);
void register_einsum_lowering(LoweringRegistry* lowerings);

}  // namespace tutti
