#include "compiler/token_grids.h"

#include <algorithm>
#include <set>

#include "compiler/cost.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

// It reads places of its neighbours.
bool reaches_across(const FactorMap& map) {
  return std::any_of(map.windows.begin(), map.windows.end(), [](const FactorWindow& window) {
    return window.map.extent > window.map.stride;
  });
}

bool has_convolution_behind_work(const Graph& graph) {
  std::set<const Value*> has_work;
  for (const auto& node : graph.nodes()) {
    const bool is_behind =
        std::any_of(node->inputs().begin(), node->inputs().end(),
                    [&](const Value* input) { return has_work.contains(input); });
    if (node->type() == "Conv" && is_behind && reaches_across(factors_of(*node))) return true;
    if (is_behind || is_real_work(*node)) {
      has_work.insert(node->outputs().begin(), node->outputs().end());
    }
  }
  return false;
}

std::vector<Dim> attended_tokens(const Graph& graph) {
  std::vector<Dim> sizes;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "Attention") continue;
    const Dim& size = node->input(0)->shape()[static_cast<std::size_t>(token_dimension(*node))];
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

// Sizes of the dimensions that a Reshape takes this many tokens apart into, or makes them of.
std::vector<Dim> grid_of(const Graph& graph, const Dim& tokens) {
  for (const auto& node : graph.nodes()) {
    if (node->type() != "Reshape") continue;
    const FactorMap map = factors_of(*node);
    for (const DimFactors& operand : {map.inputs[0], map.outputs[0]}) {
      for (const std::vector<int>& dim : operand) {
        std::vector<Dim> sizes;
        Dim product = 1;
        for (const int factor : dim) {
          const Dim& size = map.factors[static_cast<std::size_t>(factor)].size;
          product = product * size;
          if (!size.is(1)) sizes.push_back(size);
        }
        if (sizes.size() > 1 && product == tokens) return sizes;
      }
    }
  }
  return {};
}

}  // namespace

std::vector<std::vector<TokenRows>> token_grids(const Graph& graph) {
  std::vector<std::vector<TokenRows>> ways;
  if (!has_convolution_behind_work(graph)) return ways;
  for (const Dim& tokens : attended_tokens(graph)) {
    const std::vector<Dim> grid = grid_of(graph, tokens);
    Dim rows = 1;
    for (std::size_t i = 0; i + 1 < grid.size(); ++i) {
      rows = rows * grid[i];
      if (ways.size() == i) ways.emplace_back();
      ways[i].push_back({tokens, rows});
    }
  }
  return ways;
}

}  // namespace tutti
