// What the pattern passes ask of a graph.
#pragma once

#include <optional>
#include <string_view>

#include "graph/builder.h"

namespace tutti {

// The node that makes `value`, when it is of that type; null otherwise.
Node* producer_of(const Value* value, std::string_view type);

bool is_graph_output(const Graph& graph, const Value* value);

// One operand uses the value and nothing else does.
bool has_single_use(const Graph& graph, const Value* value);

// The only element of a constant number, of any rank.
std::optional<double> scalar_of(const Value* value);

// `node` is the binary operator `type` with a one-element constant on one side.
struct ScalarOperand {
  Value* other = nullptr;
  double scalar = 0;
  bool scalar_is_left = false;
};
std::optional<ScalarOperand> with_scalar(const Node* node, std::string_view type);

// Whatever the symbols stand for, which is sizes: a sum of products of them without a minus.
bool is_never_negative(const Dim& dim);

bool nearly(double a, double b);  // within 1e-3 of each other, relative

// Transpose's `perm`.
std::vector<std::int64_t> permutation_of(const Node& transpose);
std::vector<std::int64_t> inverse_permutation(const std::vector<std::int64_t>& perm);
Shape permuted(const Shape& shape, const std::vector<std::int64_t>& perm);

// Replaces `old` by `replacement` everywhere and hands it the name, so that messages and reports
// keep the name that the user knows.
void replace_value(Graph& graph, Value* old, Value* replacement);

}  // namespace tutti
