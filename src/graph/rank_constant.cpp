#include "graph/rank_constant.h"

namespace tutti {

const Value* sliced_constant(const Value& value) {
  const Value* at = &value;
  while (at->producer() != nullptr && at->producer()->type() == "ShardSlice") {
    at = at->producer()->input(0);
  }
  return at->is_constant() ? at : nullptr;
}

bool cuts_constant(const Node& node) {
  return node.type() == "ShardSlice" && sliced_constant(*node.output()) != nullptr;
}

}  // namespace tutti
