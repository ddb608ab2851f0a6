// Code of pointwise nodes: a line a node.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tutti::cuda {

// Writes the nodes of a body, or single ones, as constants named PREFIX0, PREFIX1, ... of their
// compute types.
class BodyWriter {
 public:
  explicit BodyWriter(std::string prefix = "t") : prefix_(std::move(prefix)) {}

  // What stands for a value from outside, of its compute type. The first name of a value stays.
  // `constant`: its only element, where that is known.
  void bind(const Value* value, const std::string& name, const Tensor* constant = nullptr);
  // A scalar constant of a body. INVALID_ARGUMENT for others.
  Status bind_constant(const Value* value);
  // UNIMPLEMENTED where there is no code for the node.
  Status add(const Node& node);
  // Constants and nodes of `body`, whose inputs are bound.
  Status add_body(const Graph& body);
  const std::string& name_of(const Value* value) const { return names_.at(value); }

  std::string take() { return std::move(code_); }

 private:
  std::string expression_of(const Node& node, const std::vector<std::string>& x) const;
  std::string power(const Node& node, DType dtype, const std::string& x) const;

  std::string prefix_;
  std::map<const Value*, std::string> names_;
  std::map<const Value*, double> numbers_;  // single numbers, for Pow
  std::string code_;
  int count_ = 0;
};

// The types that there is code for.
std::vector<std::string> pointwise_types();

}  // namespace tutti::cuda
