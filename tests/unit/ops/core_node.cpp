#include "core_node.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

Result<TensorType> parse_type(const std::string& text) {
  const std::size_t open = text.find('[');
  TUTTI_ASSIGN_OR_RETURN(const DType dtype, parse_dtype(text.substr(0, open)));
  TensorType type{dtype, {}};
  for (std::size_t begin = open + 1; begin < text.size() && text[begin] != ']';) {
    const std::size_t end = text.find_first_of(",]", begin);
    TUTTI_ASSIGN_OR_RETURN(Dim size, parse_dim(text.substr(begin, end - begin)));
    type.shape.push_back(std::move(size));
    begin = end + 1;
  }
  return type;
}

}  // namespace

CoreNode::CoreNode(const std::string& op, const std::vector<std::string>& inputs,
                   AttributeMap attributes) {
  register_product_ops(&ops_, &lowerings_);
  register_conv_ops(&ops_, &lowerings_);
  register_norm_ops(&ops_, &lowerings_);
  register_attention_ops(&ops_, &lowerings_);
  GraphBuilder builder(&graph_, &ops_);
  std::vector<Value*> values;
  for (const std::string& text : inputs) {
    const auto type = text.empty() ? Result<TensorType>(TensorType{}) : parse_type(text);
    EXPECT_TRUE(type.ok()) << text;
    values.push_back(text.empty() || !type.ok() ? nullptr : graph_.add_input("", *type));
  }
  const Value* value = builder.op(op, values, std::move(attributes));
  if (value != nullptr) {
    node_ = value->producer();
    return;
  }
  error_ = builder.status().message();
  const std::string prefix = str_cat("node '' (", op, "): ");
  if (error_.starts_with(prefix)) error_ = error_.substr(prefix.size());
}

std::string CoreNode::type() const {
  return node_ == nullptr ? error_ : node_->output()->type().to_string();
}

std::string CoreNode::factors() const {
  return node_ == nullptr ? error_ : node_->op().factors(*node_).to_string();
}

std::string CoreNode::flops() const {
  return node_ == nullptr ? error_ : node_->op().flops(*node_).to_string();
}

}  // namespace tutti
