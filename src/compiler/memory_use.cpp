#include "compiler/memory_use.h"

#include <algorithm>
#include <set>

#include "compiler/cost.h"
#include "compiler/explain.h"
#include "graph/op_def.h"
#include "graph/rank_constant.h"

namespace tutti {
namespace {

double bytes_of(const Value& value, const SizeEstimate& size) {
  return size(product(value.shape())) * static_cast<double>(dtype_size(value.dtype()));
}

// Whole constants and pieces that a node other than a slice reads, each name once.
double weight_bytes(const std::vector<const Graph*>& graphs, const SizeEstimate& size) {
  std::set<std::string> counted;
  double sum = 0;
  const auto count = [&](const Value* value) {
    if (value == nullptr || sliced_constant(*value) == nullptr) return;
    if (counted.insert(value->name()).second) sum += bytes_of(*value, size);
  };
  for (const Graph* graph : graphs) {
    for (const auto& node : graph->nodes()) {
      if (cuts_constant(*node)) continue;
      for (const Value* input : node->inputs()) count(input);
    }
    for (const Value* output : graph->outputs()) count(output);
  }
  return sum;
}

// What a value's memory belongs to: a view has none of its own.
const Value* owner_of(const Value* value) {
  while (value->producer() != nullptr && value->producer()->op().is_view) {
    value = value->producer()->input(0);
  }
  return value;
}

double activation_bytes(const Graph& graph, const SizeEstimate& size) {
  std::map<const Value*, const Node*> last_use;
  for (const auto& node : graph.nodes()) {
    for (const Value* input : node->inputs()) {
      if (input != nullptr) last_use[owner_of(input)] = node.get();
    }
  }
  for (const Value* output : graph.outputs()) last_use[owner_of(output)] = nullptr;  // to the end
  std::map<const Node*, std::vector<const Value*>> ending;
  for (const auto& [value, node] : last_use) {
    const bool is_computed = value->producer() != nullptr && sliced_constant(*value) == nullptr;
    if (node != nullptr && is_computed) ending[node].push_back(value);
  }
  double alive = 0;
  double most = 0;
  for (const auto& node : graph.nodes()) {
    if (node->op().is_view || cuts_constant(*node)) continue;
    for (const Value* output : node->outputs()) alive += bytes_of(*output, size);
    most = std::max(most, alive);
    for (const Value* output : node->outputs()) {
      if (!last_use.contains(output)) alive -= bytes_of(*output, size);
    }
    for (const Value* value : ending[node.get()]) alive -= bytes_of(*value, size);
  }
  return most;
}

}  // namespace

std::vector<RankBytes> memory_by_rank(const Graph& main, const Graph* prologue, const Mesh& mesh,
                                      const SymbolMap& sizes) {
  std::vector<const Graph*> graphs = {&main};
  if (prologue != nullptr) graphs.push_back(prologue);
  std::vector<RankBytes> ranks;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    SymbolMap symbols = sizes;
    mesh.bind(rank, &symbols);
    const SizeEstimate size(std::move(symbols));
    RankBytes& bytes = ranks.emplace_back();
    bytes.weights = weight_bytes(graphs, size);
    for (const Graph* graph : graphs) {
      bytes.activations = std::max(bytes.activations, activation_bytes(*graph, size));
    }
    if (prologue == nullptr) continue;
    for (const Value* output : prologue->outputs()) bytes.prologue += bytes_of(*output, size);
  }
  return ranks;
}

Status check_memory(const std::vector<RankBytes>& ranks, double limit) {
  if (limit <= 0) return {};
  std::string text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankBytes& bytes = ranks[rank];
    if (bytes.total() <= limit) continue;
    text += str_cat(text.empty() ? "" : ", ", "rank ", rank, " needs ",
                    static_cast<std::int64_t>(bytes.total()), " bytes (weights ",
                    human(bytes.weights), "B, activations ", human(bytes.activations),
                    "B, prologue results ", human(bytes.prologue), "B)");
  }
  if (text.empty()) return {};
  return Status(StatusCode::kResourceExhausted,
                str_cat("the memory limit of ", static_cast<std::int64_t>(limit),
                        " bytes a rank is too small: ", text));
}

}  // namespace tutti
