// An output projection to the vocabulary is often the embedding table once more, transposed, and
// exporters write it so: as a constant of its own, or as a Transpose that is too large to fold.
// Read as a product with the table, it is kept once, and pieces of the table's rows serve lookup
// and product alike.
#include <cstring>
#include <map>

#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

// `b` [n, m] holds the elements of `a` [m, n].
bool is_transposed(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.dims()[0];
  const std::int64_t n = a.dims()[1];
  if (a.dtype() != b.dtype() || b.dims() != Dims{n, m}) return false;
  const std::size_t size = dtype_size(a.dtype());
  constexpr std::int64_t kTile = 64;  // of rows that stay in the cache
  for (std::int64_t first = 0; first < m; first += kTile) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = first; i < std::min(first + kTile, m); ++i) {
        const auto at = static_cast<std::size_t>(i * n + j) * size;
        const auto across = static_cast<std::size_t>(j * m + i) * size;
        if (std::memcmp(a.data() + at, b.data() + across, size) != 0) return false;
      }
    }
  }
  return true;
}

std::vector<Value*> lookup_tables(const Graph& graph) {
  std::vector<Value*> tables;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "Gather" || node->attr_int("axis") != 0) continue;
    Value* table = node->input(0);
    if (table->is_constant() && table->rank() == 2 && is_floating(table->dtype())) {
      tables.push_back(table);
    }
  }
  return tables;
}

// The table that a product's weight is, transposed; null: none.
Value* tied_table(const std::vector<Value*>& tables, const Value& weight) {
  if (const Node* transpose = producer_of(&weight, "Transpose")) {
    Value* table = transpose->input(0);
    return table->is_constant() && table->rank() == 2 && weight.shape()[0] == table->shape()[1]
               ? table
               : nullptr;
  }
  if (!weight.is_constant() || weight.rank() != 2) return nullptr;
  for (Value* table : tables) {
    if (is_transposed(table->constant(), weight.constant())) return table;
  }
  return nullptr;
}

}  // namespace

Status tie_tables(Graph& graph, const CompileOptions& options) {
  const std::vector<Value*> tables = lookup_tables(graph);
  GraphBuilder b(&graph, options.registry, options.evaluator);
  std::map<const Value*, Value*> known;
  for (const auto& owned : graph.nodes()) {
    Node* node = owned.get();
    if (node->type() != "MatMul" || !is_floating(node->output()->dtype())) continue;
    const Value* weight = node->input(1);
    const auto [found, is_new] = known.emplace(weight, nullptr);
    if (is_new) found->second = tied_table(tables, *weight);
    if (found->second == nullptr) continue;
    b.set_insertion_point(node);
    b.set_name(node->name());
    Value* y = b.op("Linear", {node->input(0), found->second, nullptr, nullptr},
                    {{"transpose_w", std::int64_t{1}}});
    TUTTI_RETURN_IF_ERROR(b.status());
    replace_value(graph, node->output(), y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
