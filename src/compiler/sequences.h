// Where sequences of tokens are concatenated, and what of.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/factor_map.h"
#include "graph/graph.h"

namespace tutti {

using TokenDim = std::pair<const Value*, int>;  // a value and its token dimension

const Dim& tokens_of(const TokenDim& at);

// The dimension that starts with the factor; -1: none.
int dimension_of_factor(const DimFactors& operand, int factor);

// Looks for the concatenation of sequences that a token dimension comes from, however far back.
class SequenceFinder {
 public:
  explicit SequenceFinder(const Graph& graph);

  // Sizes of what a token dimension is a concatenation of, in order, down to the last
  // concatenation. Empty when it is one sequence, or when nowhere in the model an attention stands
  // in front of a concatenation of so many tokens, or of what takes them apart again, or asks with
  // one of them alone: then one split of the whole is simpler and computes little twice.
  std::vector<Dim> segments_of(const TokenDim& at);

 private:
  void find_mixed(const TokenDim& at);
  void find_taken_apart(const Node& node);
  void find_asking(const Node& attention);
  bool mark_cut(const TokenDim& at, const Dim& start, const Dim& end);
  bool are_of_queries(const TokenDim& at);
  void mark(const TokenDim& join);
  TokenDim find(const TokenDim& at);
  TokenDim find_behind(const TokenDim& at);
  bool depends_on_attention(const Value* value);
  std::vector<Dim> segments_of_cut(const TokenDim& cut);
  std::vector<Dim> segments_of_join(const TokenDim& join);
  std::vector<Dim> segments_between_borders(const Dim& tokens) const;

  std::set<std::vector<Dim>> mixed_;  // sizes of what is concatenated
  std::vector<TokenDim> joins_;       // of such sizes
  // By size of a sequence that is joined of nothing: stretches that are cut out of it.
  std::map<Dim, std::set<std::pair<Dim, Dim>>> borders_;
  std::map<TokenDim, bool> of_queries_;
  std::set<TokenDim> visited_;
  std::set<TokenDim> open_;  // whose segments are being looked for
  std::map<TokenDim, TokenDim> origins_;
  std::map<const Value*, bool> depends_;
};

}  // namespace tutti
