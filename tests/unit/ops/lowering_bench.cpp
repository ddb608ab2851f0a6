#include "lowering_bench.h"

#include <gtest/gtest.h>

#include "ops/families.h"

namespace tutti {

LoweringBench::LoweringBench() : builder_(&graph_, &ops_) {
  register_pointwise_ops(&ops_, &lowerings_);
  register_movement_ops(&ops_, &lowerings_);
  register_reduce_ops(&ops_, &lowerings_);
  register_product_ops(&ops_, &lowerings_);
}

Value* LoweringBench::ints(std::initializer_list<std::int64_t> values) {
  return constant(Tensor::ints(std::span<const std::int64_t>(values.begin(), values.size())));
}

Result<std::vector<Value*>> LoweringBench::lower(std::string_view type, std::vector<Value*> inputs,
                                                 AttributeMap attributes, int opset,
                                                 int num_outputs) {
  const Lowering* rule = lowerings_.find("", type, opset);
  if (rule == nullptr) return not_found("there is no rule for ", type);
  LoweringContext context(&builder_, std::string(type), opset, std::move(inputs),
                          std::move(attributes), num_outputs);
  const Status status = rule->lower(context);
  const Status sticky = builder_.take_status();
  TUTTI_RETURN_IF_ERROR(status);
  TUTTI_RETURN_IF_ERROR(sticky);
  return context.outputs;
}

Value* LoweringBench::one(std::string_view type, std::vector<Value*> inputs,
                          AttributeMap attributes, int opset) {
  const auto outputs = lower(type, std::move(inputs), std::move(attributes), opset);
  EXPECT_TRUE(outputs.ok()) << type << ": " << outputs.status().to_string();
  return outputs.ok() ? (*outputs)[0] : nullptr;
}

std::string LoweringBench::made_by(const Value* value) {
  if (value == nullptr) return "nothing";
  if (value->is_constant()) return "constant";
  return value->producer() == nullptr ? "input" : value->producer()->type();
}

std::string LoweringBench::elements(const Value* value) {
  if (value == nullptr || !value->symbolic()) return "unknown";
  return str_cat(*value->symbolic());
}

}  // namespace tutti
