#include "compiler/value_layouts.h"

#include "compiler/conversion.h"

namespace tutti {

Layout ValueLayouts::made(const Value& value) const {
  const Node* node = value.producer();
  if (node == nullptr) return {};
  return output_layout(maps_.at(node), static_cast<std::size_t>(value.producer_output()),
                       sharding_.find(*node), sharding_.axis);
}

bool ValueLayouts::is_in_pieces(const Value& value) const {
  const Layout layout = made(value);
  return layout.splits.size() == 1 && layout.partial_axes.empty() && !has_windows(layout);
}

bool ValueLayouts::is_read_whole(const Node& user, const Value& value) const {
  for (std::size_t i = 0; i < user.inputs().size(); ++i) {
    if (user.input(i) != &value) continue;
    const Layout needed = input_layout(maps_.at(&user), i, sharding_.find(user), sharding_.axis);
    if (!needed.is_replicated()) return false;
  }
  return true;
}

bool ValueLayouts::works_on_pieces(const Node& node) const {
  const FactorSplit* split = sharding_.find(node);
  return split != nullptr && !is_reduction(maps_.at(&node), *split);
}

}  // namespace tutti
