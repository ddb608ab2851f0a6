// Nodes that combine activations with a fixed weight: products, convolutions, embeddings.
#pragma once

#include <optional>

#include "graph/factor_map.h"
#include "graph/graph.h"

namespace tutti {

struct WeightUse {
  std::size_t weight = 0;  // input that is the weight
  std::size_t data = 0;    // input that is not
  int feature = -1;        // factor of weight and output that the data lacks: output features
  int sum = -1;            // reduction over data and weight; -1: there is none
};

// Nothing when the node has no constant operand of rank 2 or more with output features. Node rules
// that tie a factor to the whole (a grouped convolution) have none.
std::optional<WeightUse> weight_use(const Node& node, const FactorMap& map);

}  // namespace tutti
