// Backwards from what is cut out of joined sequences, and from keys that a mask closes: which rows
// of each value anybody reads. What works on rows then works on those alone.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/match.h"
#include "compiler/open_keys.h"
#include "compiler/operand_rows.h"
#include "compiler/passes.h"
#include "compiler/sequences.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

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

  // What a node is asked for: rows of its results, as the first that is read counts them.
  struct Asked {
    std::size_t output = 0;
    Rows rows;
    std::optional<OpenKeys> keys;  // of an attention: those that it needs
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
    if (value == nullptr || (rows && is_nothing(*rows))) return;
    if (rows && is_whole(*value, *rows)) rows = std::nullopt;
    const auto [it, is_first] = read_.emplace(value, Read{true, rows});
    if (is_first || !it->second.rows) return;
    it->second.rows = rows ? hull(*it->second.rows, *rows) : std::nullopt;
    if (it->second.rows && is_whole(*value, *it->second.rows)) it->second.rows = std::nullopt;
  }

  // nullopt: all there is.
  std::optional<Asked> asked_of(const Node& node) {
    std::optional<Asked> asked = rows_asked_of(node);
    if (node.type() != "Attention") return asked;
    const int dim = token_dimension(node);
    const Dim& queries = node.output()->shape()[static_cast<std::size_t>(dim)];
    const Rows rows = asked ? asked->rows : Rows{dim, 0, queries};
    const auto keys = keys_for(node, rows);
    if (!keys) return asked;
    return Asked{0, rows, keys};
  }

  std::optional<Asked> rows_asked_of(const Node& node) const {
    std::optional<Asked> all;
    for (std::size_t o = 0; o < node.outputs().size(); ++o) {
      const Read read = read_of(node.output(o));
      if (!read.any) continue;
      if (!read.rows) return std::nullopt;
      if (!all) {
        all = Asked{o, *read.rows, std::nullopt};
        continue;
      }
      const auto both = hull(all->rows, *read.rows);
      if (!both) return std::nullopt;
      all->rows = *both;
    }
    return all;
  }

  // The others are closed to these queries, and are sequences of their own.
  std::optional<OpenKeys> keys_for(const Node& attention, const Rows& queries) {
    const int dim = token_dimension(attention);
    if (queries.dim != dim || !queries.start.is_constant() || !queries.end.is_constant()) {
      return std::nullopt;
    }
    const auto open = open_keys(attention, queries.start.constant(), queries.end.constant());
    if (!open) return std::nullopt;
    const Rows rows{dim, open->first, open->end};
    const bool are_some = !is_whole(*attention.input(1), rows) &&
                          are_sequences(rows, sequences_.segments_of({attention.input(1), dim}));
    return are_some ? open : std::nullopt;
  }

  bool is_read(const Node& node) const {
    return std::any_of(node.outputs().begin(), node.outputs().end(),
                       [this](const Value* output) { return read_of(output).any; });
  }

  // Rows of a node's operands; nullopt: all.
  std::optional<OperandRows> operands_for(const Node& node, const Asked& asked) const {
    auto operands = rows_of_operands(node, asked.output, asked.rows);
    if (operands && asked.keys) {
      for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
        (*operands)[i] = Rows{asked.rows.dim, asked.keys->first, asked.keys->end};
      }
    }
    return operands;
  }

  void ask(const Node& node) {
    if (!is_read(node)) return;
    const auto asked = asked_of(node);
    if (const auto rows = rows_cut_out(node)) {
      cuts_.emplace(&node, *rows);
      if (asked && asked->rows.dim == rows->dim) narrow_.emplace(&node, *asked);
      return add(node.input(0), *rows);
    }
    if (asked) {
      if (const auto operands = operands_for(node, *asked)) {
        for (std::size_t i = 0; i < operands->size(); ++i) add(node.input(i), (*operands)[i]);
        narrow_.emplace(&node, *asked);
        return;
      }
    }
    for (const Value* input : node.inputs()) add(input, std::nullopt);
  }

  // A Slice, or a Split of which one part is read, of some whole sequences of those that were
  // joined. What anybody reads of its result.
  std::optional<Rows> rows_cut_out(const Node& node) {
    std::optional<Rows> rows;
    const auto part_of = [&](const Value* output, int dim, const Dim& start, const Dim& end) {
      const auto read = read_of(output).rows;
      return read && read->dim == dim ? Rows{dim, start + read->start, start + read->end}
                                      : Rows{dim, start, end};
    };
    if (node.type() == "Slice") {
      const auto axes = node.attr_ints("axes");
      if (axes.size() != 1 || node.attr_ints("steps")[0] != 1) return std::nullopt;
      rows = part_of(node.output(), static_cast<int>(axes[0]), node.attr_dims("starts")[0],
                     node.attr_dims("ends")[0]);
    } else if (node.type() == "Split") {
      Dim start = 0;
      const Shape sizes = node.attr_dims("sizes");
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (read_of(node.output(i)).any) {
          if (rows) return std::nullopt;
          rows = part_of(node.output(i), static_cast<int>(node.attr_int("axis")), start,
                         start + sizes[i]);
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
    if (const auto cut = cuts_.find(&node); cut != cuts_.end()) return rebuild_cut(node);
    const Asked& asked = narrow_.at(&node);
    const OperandRows rows = *operands_for(node, asked);
    std::vector<Value*> inputs;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] && is_nothing(*rows[i])) continue;  // of what is joined
      inputs.push_back(rows[i] ? rows_of(node.input(i), *rows[i]) : node.input(i));
    }
    if (asked.keys) inputs[kMask] = mask_of(inputs[kMask], *asked.keys);
    if (inputs.size() == 1 && joins(node, asked.rows.dim)) {
      made_.emplace(node.output(), std::pair(inputs[0], asked.rows));
      return;
    }
    const std::vector<Value*> made =
        builder_.ops(node.type(), std::move(inputs), attributes_for(node, asked.rows),
                     static_cast<int>(node.outputs().size()));
    for (std::size_t o = 0; o < made.size(); ++o) {
      if (made[o] == nullptr) continue;
      if (is_whole(*node.output(o), asked.rows)) {
        replace_value(graph_, node.output(o), made[o]);
      } else {
        made_.emplace(node.output(o), std::pair(made[o], asked.rows));
      }
    }
  }

  void rebuild_cut(Node& node) {
    for (Value* output : node.outputs()) {
      const Read read = read_of(output);
      if (!read.any) continue;
      Value* rows = rows_of(node.input(0), cuts_.at(&node));
      const auto part = narrow_.find(&node);
      if (part == narrow_.end()) return replace_value(graph_, output, rows);
      made_.emplace(output, std::pair(rows, part->second.rows));
      return;
    }
  }

  // Null: nothing is closed any more.
  Value* mask_of(Value* mask, const OpenKeys& keys) {
    if (keys.are_all_open) return nullptr;
    const auto last = static_cast<std::int64_t>(mask->rank()) - 1;
    return builder_.slice(mask, {last}, {keys.first}, {keys.end});
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

  static constexpr std::size_t kMask = 3;  // operand of an Attention

  Graph& graph_;
  SequenceFinder sequences_;
  GraphBuilder builder_;
  std::map<const Value*, Read> read_;
  std::map<const Node*, Rows> cuts_;           // what they cut out
  std::map<const Node*, Asked> narrow_;        // work on these rows alone
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
