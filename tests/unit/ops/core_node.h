// One core operator over inputs that are given as text, for tests of types, layout rules and costs.
#pragma once

#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/families.h"

namespace tutti {

class CoreNode {
 public:
  // Inputs are types such as "f32[b, 8, 64]"; "" is an absent one.
  CoreNode(const std::string& op, const std::vector<std::string>& inputs,
           AttributeMap attributes = {});

  std::string type() const;     // of the output
  std::string factors() const;  // FactorMap::to_string
  std::string flops() const;
  // The infer function's message, "" when the node is right.
  std::string error() const { return error_; }

 private:
  OpRegistry ops_;
  LoweringRegistry lowerings_;
  Graph graph_;
  const Node* node_ = nullptr;
  std::string error_;
};

}  // namespace tutti
