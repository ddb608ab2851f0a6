// Backwards from what is cut out of joined sequences: which rows of each value anybody reads. What
// works on rows then works on those alone.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/sequences.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

// Rows [start, end) of one dimension.
struct Rows {
  int dim = 0;
  Dim start = 0;
  Dim end = 0;
  bool operator==(const Rows&) const = default;
};

using OperandRows = std::vector<std::optional<Rows>>;  // by operand; none: all of it

// Both, and what lies between them; nullopt: sizes leave open what that is.
std::optional<Rows> hull(const Rows& a, const Rows& b) {
  if (a.dim != b.dim) return std::nullopt;
  const auto pick = [](const Dim& low, const Dim& high, bool takes_low) -> std::optional<Dim> {
    if (is_never_negative(high - low)) return takes_low ? low : high;
    if (is_never_negative(low - high)) return takes_low ? high : low;
    return std::nullopt;
  };
  const auto start = pick(a.start, b.start, true);
  const auto end = pick(a.end, b.end, false);
  if (!start || !end) return std::nullopt;
  return Rows{a.dim, *start, *end};
}

bool is_work_on_rows(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {"Attention", "Linear", "MatMul"};
  return kTypes.contains(node.type());
}

// Works on each row by itself, also in front of or behind such work.
bool works_on_rows(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {
      "Concat", "Expand", "LayerNormalization", "RMSNormalization", "Reshape",
      "Slice",  "Split",  "Transpose"};
  return node.op().factors != nullptr &&
         (is_work_on_rows(node) || node.op().is_pointwise || kTypes.contains(node.type()));
}

// The rows of its operands that a node needs for these rows of its results; nullopt: all of them.
std::optional<OperandRows> rows_of_operands(const Node& node, std::size_t output,
                                            const Rows& rows) {
  if (!works_on_rows(node)) return std::nullopt;
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
      if (is_work_on_rows(node) && node.input(i)->is_constant()) return std::nullopt;
      found[i] = Rows{static_cast<int>(d), rows.start, rows.end};
    }
  }
  return found;
}

class UnreadRows {
 public:
  UnreadRows(Graph& graph, const CompileOptions& options)
      : graph_(graph), sequences_(graph), builder_(&graph, options.registry, options.evaluator) {}

  // Whether anything was dropped.
  Result<bool> run() {
    for (auto it = graph_.nodes().rbegin(); it != graph_.nodes().rend(); ++it) ask(**it);
    join_regions();
    std::vector<Node*> order;
    for (const auto& node : graph_.nodes()) order.push_back(node.get());
    for (Node* node : order) {
      if (!saves_work(*node)) continue;
      builder_.set_insertion_point(node);
      builder_.set_name(node->name());
      rebuild(*node);
      TUTTI_RETURN_IF_ERROR(builder_.take_status());
      has_dropped_ = true;
    }
    if (has_dropped_) graph_.remove_dead();
    return has_dropped_;
  }

 private:
  // What anybody reads of a value, when its users have asked.
  struct Read {
    bool any = false;
    std::optional<Rows> rows;  // none: all
  };

  bool is_whole(const Value& value, const Rows& rows) const {
    return rows.start.is(0) && rows.end == value.shape()[static_cast<std::size_t>(rows.dim)];
  }

  Read read_of(const Value* value) const {
    if (is_graph_output(graph_, value)) return {true, std::nullopt};
    const auto it = read_.find(value);
    return it == read_.end() ? Read() : it->second;
  }

  // Somebody reads `rows` of the value, or all.
  void add(const Value* value, std::optional<Rows> rows) {
    if (value == nullptr) return;
    if (rows && is_whole(*value, *rows)) rows = std::nullopt;
    const auto [it, is_first] = read_.emplace(value, Read{true, rows});
    if (is_first || !it->second.rows) return;
    it->second.rows = rows ? hull(*it->second.rows, *rows) : std::nullopt;
    if (it->second.rows && is_whole(*value, *it->second.rows)) it->second.rows = std::nullopt;
  }

  // The rows of all results that anybody reads, and the first of those; none: all rows.
  std::optional<std::pair<std::size_t, Rows>> asked_of(const Node& node) const {
    std::optional<std::pair<std::size_t, Rows>> all;
    for (std::size_t o = 0; o < node.outputs().size(); ++o) {
      const Read read = read_of(node.output(o));
      if (!read.any) continue;
      if (!read.rows) return std::nullopt;
      if (!all) {
        all = {o, *read.rows};
        continue;
      }
      const auto both = hull(all->second, *read.rows);
      if (!both) return std::nullopt;
      all->second = *both;
    }
    return all;
  }

  void ask(const Node& node) {
    if (const auto rows = rows_cut_out(node)) {
      cuts_.emplace(&node, *rows);
      return add(node.input(0), *rows);
    }
    if (const auto asked = asked_of(node)) {
      auto operands = rows_of_operands(node, asked->first, asked->second);
      if (operands) {
        for (std::size_t i = 0; i < operands->size(); ++i) add(node.input(i), (*operands)[i]);
        narrow_.emplace(&node, asked->second);
        return;
      }
    }
    for (const Value* input : node.inputs()) add(input, std::nullopt);
  }

  // A Slice, or a Split of which one part is read, of some whole sequences of those that were
  // joined. What anybody reads of its result.
  std::optional<Rows> rows_cut_out(const Node& node) {
    std::optional<Rows> rows;
    if (node.type() == "Slice") {
      const auto axes = node.attr_ints("axes");
      if (axes.size() != 1 || node.attr_ints("steps")[0] != 1) return std::nullopt;
      rows =
          Rows{static_cast<int>(axes[0]), node.attr_dims("starts")[0], node.attr_dims("ends")[0]};
    } else if (node.type() == "Split") {
      Dim start = 0;
      const Shape sizes = node.attr_dims("sizes");
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (read_of(node.output(i)).any) {
          if (rows) return std::nullopt;
          rows = Rows{static_cast<int>(node.attr_int("axis")), start, start + sizes[i]};
        }
        start = start + sizes[i];
      }
    }
    if (!rows || is_whole(*node.input(0), *rows)) return std::nullopt;
    const bool are_some = are_sequences(*rows, sequences_.segments_of({node.input(0), rows->dim}));
    return are_some ? rows : std::nullopt;
  }

  static bool are_sequences(const Rows& rows, const std::vector<Dim>& segments) {
    Dim at = 0;
    bool starts = false;
    for (const Dim& segment : segments) {
      starts |= at == rows.start;
      at = at + segment;
      if (starts && at == rows.end) return true;
    }
    return false;
  }

  // Nodes that hand each other values in rows; those with work among them are worth it.
  void join_regions() {
    for (const auto& owned : graph_.nodes()) {
      const Node* node = owned.get();
      if (!narrow_.contains(node) && !cuts_.contains(node)) continue;
      const Node* region = node;
      for (const Value* input : node->inputs()) {
        const Node* maker = input == nullptr ? nullptr : input->producer();
        if (maker == nullptr || !read_of(input).rows || !narrow_.contains(maker)) continue;
        const Node* other = region_of(maker);
        if (other == region) continue;
        region_[other] = region;
        if (works_.erase(other) > 0) works_.insert(region);
      }
      if (narrow_.contains(node) && is_work_on_rows(*node)) works_.insert(region);
    }
  }

  const Node* region_of(const Node* node) const {
    for (auto it = region_.find(node); it != region_.end(); it = region_.find(node)) {
      node = it->second;
    }
    return node;
  }

  bool saves_work(const Node& node) const {
    return (narrow_.contains(&node) || cuts_.contains(&node)) && works_.contains(region_of(&node));
  }

  // The rows of a value: cut out of what there is of it now.
  Value* rows_of(Value* value, const Rows& rows) {
    const auto it = made_.find(value);
    Value* now = it == made_.end() ? value : it->second.first;
    const Dim first = it == made_.end() ? Dim(0) : it->second.second.start;
    const Rows local{rows.dim, rows.start - first, rows.end - first};
    if (is_whole(*now, local)) return now;
    return builder_.slice(now, {rows.dim}, {local.start}, {local.end});
  }

  void rebuild(Node& node) {
    if (const auto cut = cuts_.find(&node); cut != cuts_.end()) {
      for (Value* output : node.outputs()) {
        if (!read_of(output).any) continue;
        return replace_value(graph_, output, rows_of(node.input(0), cut->second));
      }
      return;
    }
    const auto asked = asked_of(node);
    const OperandRows rows = *rows_of_operands(node, asked->first, asked->second);
    std::vector<Value*> inputs = node.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (rows[i]) inputs[i] = rows_of(inputs[i], *rows[i]);
    }
    const std::vector<Value*> made =
        builder_.ops(node.type(), std::move(inputs), attributes_for(node, asked->second),
                     static_cast<int>(node.outputs().size()));
    for (std::size_t o = 0; o < made.size(); ++o) {
      if (made[o] != nullptr) made_.emplace(node.output(o), std::pair(made[o], asked->second));
    }
  }

  // Those that spell out the output's shape spell out that of the rows; a causal attention's first
  // query stands further back.
  static AttributeMap attributes_for(const Node& node, const Rows& rows) {
    AttributeMap attributes = node.attributes();
    const Shape shape = node.output()->shape();
    for (auto& [name, attribute] : attributes) {
      Shape* dims = name == "shape" ? std::get_if<Shape>(&attribute) : nullptr;
      if (dims != nullptr && *dims == shape) {
        (*dims)[static_cast<std::size_t>(rows.dim)] = rows.end - rows.start;
      }
    }
    if (node.type() == "Attention" && node.attr_int("is_causal") != 0 &&
        rows.dim == token_dimension(node)) {
      const Shape offset = node.attr_dims("causal_offset");
      attributes["causal_offset"] = Shape{(offset.empty() ? Dim(0) : offset[0]) + rows.start};
    }
    return attributes;
  }

  Graph& graph_;
  SequenceFinder sequences_;
  GraphBuilder builder_;
  std::map<const Value*, Read> read_;
  std::map<const Node*, Rows> cuts_;           // what they cut out
  std::map<const Node*, Rows> narrow_;         // work on these rows alone
  std::map<const Node*, const Node*> region_;  // up to the first that is not here
  std::set<const Node*> works_;
  std::map<const Value*, std::pair<Value*, Rows>> made_;
  bool has_dropped_ = false;
};

}  // namespace

Status drop_unread_rows(Graph& graph, const CompileOptions& options) {
  // What is simpler then may be read in fewer rows.
  for (;;) {
    TUTTI_ASSIGN_OR_RETURN(const bool has_dropped, UnreadRows(graph, options).run());
    if (!has_dropped) return {};
    TUTTI_RETURN_IF_ERROR(simplify(graph, options));
  }
}

}  // namespace tutti
