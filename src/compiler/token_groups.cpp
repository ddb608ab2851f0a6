#include "compiler/token_groups.h"

#include "compiler/match.h"

namespace tutti {

std::optional<TokenGroups> token_groups(const Node& attention) {
  if (attention.attr_string("layout") != "bshd") return std::nullopt;
  const Node* reshape = producer_of(attention.input(0), "Reshape");
  if (reshape == nullptr || reshape->input(0)->rank() < 2) return std::nullopt;
  const Shape& sequences = reshape->input(0)->shape();
  const Shape& groups = reshape->output()->shape();
  const auto count = exact_div(sequences[1], groups[1]);
  if (!count || !count->is_constant() || !groups[1].is_constant()) return std::nullopt;
  if (count->constant() < 2 || sequences[0] * *count != groups[0]) return std::nullopt;
  return TokenGroups{sequences[0], count->constant(), groups[1].constant()};
}

}  // namespace tutti
