#include "compiler/operand_rows.h"

#include <algorithm>
#include <set>

#include "compiler/match.h"
#include "compiler/sharding.h"

namespace tutti {
namespace {

// nullopt: sizes leave open which one is.
std::optional<Dim> lower(const Dim& a, const Dim& b) {
  if (is_never_negative(b - a)) return a;
  return is_never_negative(a - b) ? std::optional(b) : std::nullopt;
}

std::optional<Dim> higher(const Dim& a, const Dim& b) {
  const auto low = lower(a, b);
  if (!low) return std::nullopt;
  return *low == a ? b : a;
}

bool is_product(const Node& node) { return node.type() == "Linear" || node.type() == "MatMul"; }

// Of each of what a Concat joins: its share of these rows, which may be nothing.
std::optional<OperandRows> rows_of_joined(const Node& concat, const Rows& rows) {
  OperandRows found;
  Dim before = 0;
  for (const Value* input : concat.inputs()) {
    const Dim& size = input->shape()[static_cast<std::size_t>(rows.dim)];
    const auto start = higher(rows.start - before, 0);
    const auto end = lower(rows.end - before, size);
    const auto low = start && end ? lower(*start, *end) : std::nullopt;
    if (!low) return std::nullopt;
    found.push_back(*low == *start ? Rows{rows.dim, *start, *end} : Rows{rows.dim, 0, 0});
    before = before + size;
  }
  return found;
}

// Works on each row by itself, also in front of or behind such work.
bool works_on_rows(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {
      "Concat", "Expand", "LayerNormalization", "RMSNormalization", "Reshape",
      "Slice",  "Split",  "Transpose"};
  return node.op().factors != nullptr &&
         (is_work_on_rows(node) || node.op().is_pointwise || kTypes.contains(node.type()));
}

}  // namespace

bool is_nothing(const Rows& rows) { return rows.start == rows.end; }

std::optional<Rows> hull(const Rows& a, const Rows& b) {
  if (a.dim != b.dim) return std::nullopt;
  const auto start = lower(a.start, b.start);
  const auto end = higher(a.end, b.end);
  if (!start || !end) return std::nullopt;
  return Rows{a.dim, *start, *end};
}

bool is_work_on_rows(const Node& node) { return node.type() == "Attention" || is_product(node); }

bool joins(const Node& node, int dim) {
  return node.type() == "Concat" && node.attr_int("axis") == dim;
}

std::optional<OperandRows> rows_of_operands(const Node& node, std::size_t output,
                                            const Rows& rows) {
  if (!works_on_rows(node)) return std::nullopt;
  if (joins(node, rows.dim)) return rows_of_joined(node, rows);
  const FactorMap map = factors_of(node);
  const auto& factors = map.outputs[output][static_cast<std::size_t>(rows.dim)];
  if (factors.size() != 1) return std::nullopt;
  if (map.factors[static_cast<std::size_t>(factors[0])].role != FactorRole::kParallel) {
    return std::nullopt;
  }
  if (map.sum_with(factors[0]) != nullptr || map.sum_of(factors[0]) != nullptr) return std::nullopt;
  OperandRows found(node.inputs().size());
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (node.input(i) == nullptr) continue;
    for (std::size_t d = 0; d < map.inputs[i].size(); ++d) {
      const std::vector<int>& held = map.inputs[i][d];
      if (std::find(held.begin(), held.end(), factors[0]) == held.end()) continue;
      if (held.size() != 1 || found[i]) return std::nullopt;
      // Weights are not for cutting.
      if (is_product(node) && node.input(i)->is_constant()) return std::nullopt;
      found[i] = Rows{static_cast<int>(d), rows.start, rows.end};
    }
  }
  return found;
}

}  // namespace tutti
