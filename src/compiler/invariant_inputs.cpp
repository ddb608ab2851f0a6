#include <algorithm>
#include <optional>

#include "compiler/hoist.h"
#include "compiler/match.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

bool is_row_number(const Node& node, std::size_t operand) {
  const std::string& type = node.type();
  return operand == 1 && (type.starts_with("Gather") || type.starts_with("Scatter"));
}

// Rows of a dimension.
struct Rows {
  int dim = 0;
  Dim begin = 0;
  Dim end = 0;
  bool operator==(const Rows&) const = default;
};

// Which rows of which values tokens come from, back through the graph.
class TokenSources {
 public:
  explicit TokenSources(const Graph& graph) : graph_(graph) {}

  void add(const Value* value, int dim) {
    mark(value, {dim, 0, value->shape()[static_cast<std::size_t>(dim)]});
  }

  void trace() {
    for (auto it = graph_.nodes().rbegin(); it != graph_.nodes().rend(); ++it) {
      for (const Value* output : (*it)->outputs()) {
        const auto marked = marks_.find(output);
        if (marked == marks_.end()) continue;
        for (const Rows& rows : std::vector<Rows>(marked->second))
          trace_through(**it, *output, rows);
      }
    }
  }

  bool contains(const Value* value) const { return marks_.contains(value); }

 private:
  void mark(const Value* value, const Rows& rows) {
    if (rows.begin == rows.end) return;
    std::vector<Rows>& known = marks_[value];
    if (std::find(known.begin(), known.end(), rows) == known.end()) known.push_back(rows);
  }

  void mark_all(const Value* value) {
    for (std::size_t d = 0; d < value->rank(); ++d) add(value, static_cast<int>(d));
  }

  // To the input dimensions that share a factor with the output's. Where the rule says nothing,
  // tokens may come from any operand that does not only say where they go.
  void trace_through(const Node& node, const Value& output, const Rows& rows) {
    const FactorMap map = factors_of(node);
    const auto& factors = map.outputs[static_cast<std::size_t>(output.producer_output())]
                                     [static_cast<std::size_t>(rows.dim)];
    for (const int factor : factors) {
      bool found = false;
      if (const FactorSum* sum = map.sum_of(factor)) {
        found = mark_parts(node, map, *sum, rows);
      } else if (const FactorSum* cut = map.sum_with(factor)) {
        const Dim start = offset_of(map, *cut, factor);
        found = mark_holders(node, map, cut->whole, Rows{0, start + rows.begin, start + rows.end});
      } else if (factors.size() == 1) {
        found = mark_holders(node, map, factor, rows);
      } else {
        found = mark_holders(node, map, factor, std::nullopt);
      }
      for (std::size_t i = 0; !found && i < node.inputs().size(); ++i) {
        if (node.input(i) != nullptr && !is_row_number(node, i)) mark_all(node.input(i));
      }
    }
  }

  static const Dim& size_of(const FactorMap& map, int factor) {
    return map.factors[static_cast<std::size_t>(factor)].size;
  }

  static Dim offset_of(const FactorMap& map, const FactorSum& sum, int part) {
    Dim offset = 0;
    for (const int other : sum.parts) {
      if (other == part) break;
      offset = offset + size_of(map, other);
    }
    return offset;
  }

  // Those that the rows of the whole reach into.
  bool mark_parts(const Node& node, const FactorMap& map, const FactorSum& sum, const Rows& rows) {
    Dim low = 0;
    bool found = false;
    for (const int part : sum.parts) {
      const Dim high = low + size_of(map, part);
      const bool is_outside =
          is_never_negative(low - rows.end) || is_never_negative(rows.begin - high);
      const bool is_inside =
          is_never_negative(rows.begin - low) && is_never_negative(high - rows.end);
      const Rows within =
          is_inside ? Rows{0, rows.begin - low, rows.end - low} : Rows{0, 0, high - low};
      if (!is_outside) mark_holders(node, map, part, within);
      found = true;
      low = high;
    }
    return found;
  }

  // `rows`: of the factor; none: all of every dimension that it is in.
  bool mark_holders(const Node& node, const FactorMap& map, int factor, std::optional<Rows> rows) {
    bool found = false;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      if (node.input(i) == nullptr) continue;
      for (std::size_t d = 0; d < map.inputs[i].size(); ++d) {
        const auto& held = map.inputs[i][d];
        if (std::find(held.begin(), held.end(), factor) == held.end()) continue;
        found = true;
        const int dim = static_cast<int>(d);
        if (rows && held.size() == 1) {
          mark(node.input(i), {dim, rows->begin, rows->end});
        } else {
          add(node.input(i), dim);
        }
      }
    }
    return found;
  }

  const Graph& graph_;
  std::map<const Value*, std::vector<Rows>> marks_;
};

bool has_any(const TokenSources& sources, const Graph& graph) {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(),
                     [&](const Value* input) { return sources.contains(input); });
}

// What is denoised: the places of the results come from it. Where results have no places of their
// own (a number, one vector), it is what queries come from.
TokenSources token_sources(const Graph& graph) {
  TokenSources sources(graph);
  for (const Value* output : graph.outputs()) {
    for (std::size_t d = 1; d < output->rank(); ++d) sources.add(output, static_cast<int>(d));
  }
  sources.trace();
  if (has_any(sources, graph)) return sources;
  for (const auto& node : graph.nodes()) {
    if (node->type() == "Attention") sources.add(node->input(0), token_dimension(*node));
  }
  sources.trace();
  return sources;
}

bool is_number_per_batch_element(const Value& input) {
  Dim rest = 1;
  for (std::size_t d = 1; d < input.rank(); ++d) rest = rest * input.shape()[d];
  return rest.is(1);
}

// Token ids and places: whole numbers that only say which rows to read or write. What is denoised
// has none of those.
bool holds_row_numbers(const Value& value) {
  if (value.users().empty()) return false;
  return std::all_of(value.users().begin(), value.users().end(), [&](const Node* user) {
    const bool passes_on = user->type() == "Reshape" || user->type() == "Slice" ||
                           user->type() == "Expand" || user->type() == "Concat" ||
                           (user->type() == "Cast" && is_integer(user->output()->dtype()));
    if (passes_on) return holds_row_numbers(*user->output());
    for (std::size_t i = 0; i < user->inputs().size(); ++i) {
      if (user->input(i) == &value && !is_row_number(*user, i)) return false;
    }
    return true;
  });
}

}  // namespace

std::vector<std::string> invariant_inputs(const Graph& whole, const CompileOptions& options) {
  if (!options.invariant_inputs.empty()) return options.invariant_inputs;
  if (!options.detect_invariant_inputs) return {};
  const bool has_attention =
      std::any_of(whole.nodes().begin(), whole.nodes().end(),
                  [](const auto& node) { return node->type() == "Attention"; });
  if (!has_attention) return {};
  const TokenSources sources = token_sources(whole);
  std::vector<std::string> names;
  bool has_tokens = false;
  for (const Value* input : whole.inputs()) {
    if (is_integer(input->dtype()) && holds_row_numbers(*input)) {
      names.push_back(input->name());
    } else if (sources.contains(input)) {
      has_tokens = true;
    } else if (!is_number_per_batch_element(*input)) {
      names.push_back(input->name());
    }
  }
  return has_tokens ? names : std::vector<std::string>();
}

}  // namespace tutti
