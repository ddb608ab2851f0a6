// Values that every rank has whole for next to nothing.
#pragma once

#include <map>

#include "graph/graph.h"

namespace tutti {

// A product with data, a convolution or an attention: what makes tokens' features.
bool is_projection(const Node& node);

// A table depends on inputs and constants through movements and pointwise operators alone, such as
// rotary angles made of positions. A piece of it is as good as free.
class Tables {
 public:
  bool contains(const Value* value);

 private:
  std::map<const Value*, bool> known_;
};

}  // namespace tutti
