#include <algorithm>

#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/sequences.h"
#include "compiler/simplify_rules.h"

namespace tutti {
namespace {

// All that anybody reads of a node's operand: these rows of it, as this result.
struct RowsRead {
  int axis = 0;
  Dim start = 0;
  Dim end = 0;
  Value* result = nullptr;
};

std::optional<RowsRead> rows_of_slice(const Node& slice) {
  if (slice.attr_ints("axes").size() != 1 || slice.attr_ints("steps")[0] != 1) return std::nullopt;
  return RowsRead{static_cast<int>(slice.attr_ints("axes")[0]), slice.attr_dims("starts")[0],
                  slice.attr_dims("ends")[0], slice.output()};
}

std::optional<RowsRead> rows_of_split(const Graph& graph, const Node& split) {
  std::optional<RowsRead> rows;
  Dim start = 0;
  const Shape sizes = split.attr_dims("sizes");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Value* output = split.output(i);
    if (!output->users().empty() || is_graph_output(graph, output)) {
      if (rows) return std::nullopt;
      rows = RowsRead{static_cast<int>(split.attr_int("axis")), start, start + sizes[i], output};
    }
    start = start + sizes[i];
  }
  return rows;
}

std::optional<RowsRead> rows_read(const Graph& graph, const Node& node) {
  if (node.type() == "Slice") return rows_of_slice(node);
  if (node.type() == "Split") return rows_of_split(graph, node);
  return std::nullopt;
}

// The rows are some of the sequences, whole.
bool are_sequences(const RowsRead& rows, const std::vector<Dim>& segments) {
  Dim at = 0;
  bool starts = false;
  for (const Dim& segment : segments) {
    starts |= at == rows.start;
    at = at + segment;
    if (starts && at == rows.end) return true;
  }
  return false;
}

// One cut; rules move what stands before it, so that the rest has to be looked at again.
Result<bool> drop_once(Graph& graph, const CompileOptions& options) {
  SequenceFinder sequences(graph);
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    Node* node = owned.get();
    const auto rows = rows_read(graph, *node);
    if (!rows) continue;
    Value* whole = node->input(0);
    if (!are_sequences(*rows, sequences.segments_of({whole, rows->axis}))) continue;
    b.set_insertion_point(node);
    b.set_name(node->name());
    Value* y = rows_alone(b, whole, rows->axis, rows->start, rows->end);
    TUTTI_RETURN_IF_ERROR(b.take_status());
    if (y == nullptr) continue;
    replace_value(graph, rows->result, y);
    graph.remove_dead();
    return true;
  }
  return false;
}

}  // namespace

Status drop_unread_rows(Graph& graph, const CompileOptions& options) {
  bool has_dropped = false;
  for (;;) {
    TUTTI_ASSIGN_OR_RETURN(const bool drops, drop_once(graph, options));
    if (!drops) break;
    has_dropped = true;
  }
  return has_dropped ? simplify(graph, options) : Status();
}

}  // namespace tutti
