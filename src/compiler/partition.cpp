#include "compiler/partition.h"

#include <algorithm>

#include "compiler/conversion.h"
#include "compiler/row_moves.h"
#include "compiler/strategy.h"
#include "graph/rank_constant.h"

namespace tutti {
namespace {

// Where a boundary between segments, or the size of some of them, lies in a rank's piece.
Dim local_offset(const Dim& offset, const Split& split, const Mesh& mesh) {
  Dim global = 0;
  Dim local = 0;
  for (std::size_t i = 0; i < split.segments.size() && global != offset; ++i) {
    global = global + split.segments[i];
    local = local + segment_piece(split, i, mesh);
  }
  return local;
}

// Slice and Split along a dimension in segments: their boundaries are boundaries of segments.
void make_boundaries_local(const Node& node, const Split& split, const Mesh& mesh,
                           AttributeMap* attributes) {
  if (node.type() == "Slice") {
    const auto axes = node.attr_ints("axes");
    for (const char* name : {"starts", "ends"}) {
      Shape bounds = node.attr_dims(name);
      for (std::size_t i = 0; i < axes.size(); ++i) {
        if (axes[i] == split.dim) bounds[i] = local_offset(bounds[i], split, mesh);
      }
      (*attributes)[name] = std::move(bounds);
    }
  }
  if (node.type() == "Split" && node.attr_int("axis") == split.dim) {
    Shape sizes = node.attr_dims("sizes");
    Dim end = 0;
    Dim local_end = 0;
    for (Dim& size : sizes) {
      end = end + size;
      const Dim next = local_offset(end, split, mesh);
      size = next - local_end;
      local_end = next;
    }
    (*attributes)["sizes"] = std::move(sizes);
  }
}

// Dimensions of input 0 that come with what the windows of the piece read.
NodePiece piece_of(const Node& node, const Shape& local_output, const Layout& input) {
  NodePiece piece{local_output, {}};
  piece.is_windowed.resize(node.input(0) == nullptr ? 0 : node.input(0)->rank(), false);
  for (const Split& split : input.splits) {
    if (split.window) piece.is_windowed[static_cast<std::size_t>(split.dim)] = true;
  }
  return piece;
}

// Those that spell out the output's shape become that of the local output.
AttributeMap with_local_shape(const Node& node, const Shape& local_output) {
  AttributeMap attributes = node.attributes();
  const Shape& global = node.output()->shape();
  for (auto& [name, attribute] : attributes) {
    const Shape* dims = std::get_if<Shape>(&attribute);
    if (dims != nullptr && !dims->empty() && *dims == global) attribute = local_output;
  }
  return attributes;
}

AttributeMap local_attributes(const Node& node, const Shape& local_output, const Layout& input,
                              const Mesh& mesh) {
  AttributeMap attributes =
      node.op().piece_attributes == nullptr
          ? with_local_shape(node, local_output)
          : node.op().piece_attributes(node, piece_of(node, local_output, input));
  for (const Split& split : input.splits) {
    if (!split.segments.empty()) make_boundaries_local(node, split, mesh, &attributes);
  }
  return attributes;
}

// The first row of a rank's piece of a dimension of `size` rows.
Dim first_row(const Split& split, const Dim& size, const Mesh& mesh) {
  const Dim rank = mesh.rank_symbol(split.axis);
  const Dim ranks(mesh.size(split.axis));
  const Dim unit = rank * floor_div(split.units, ranks) + min(rank, mod(split.units, ranks));
  return unit * floor_div(size, split.units);
}

// Which of a table's rows a rank holds that looks some up.
void note_first_row(const Node& node, const Layout& table, const Mesh& mesh,
                    AttributeMap* attributes) {
  if (node.type() != "Gather") return;
  const auto axis = static_cast<int>(node.attr_int("axis"));
  for (const Split& split : table.splits) {
    if (split.dim != axis) continue;
    const Dim& rows = node.input(0)->shape()[static_cast<std::size_t>(axis)];
    (*attributes)["first_row"] = Shape{first_row(split, rows, mesh)};
    (*attributes)["rows"] = Shape{rows};
  }
}

// The first of a rank's queries stands further back in the sequence than its number says.
void shift_causal_offset(const Node& node, const Layout& output, const Mesh& mesh,
                         AttributeMap* attributes) {
  if (node.type() != "Attention" || node.attr_int("is_causal") == 0) return;
  const int tokens = token_dimension(node);
  const auto split = std::find_if(output.splits.begin(), output.splits.end(),
                                  [&](const Split& one) { return one.dim == tokens; });
  if (split == output.splits.end()) return;
  const Dim first =
      first_row(*split, node.output()->shape()[static_cast<std::size_t>(tokens)], mesh);
  const Shape offset = node.attr_dims("causal_offset");
  (*attributes)["causal_offset"] = Shape{(offset.empty() ? Dim(0) : offset[0]) + first};
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Sharding& sharding, const CompileOptions& options)
      : graph_(graph),
        sharding_(sharding),
        mesh_(options.mesh),
        builder_((out_.graph = std::make_unique<Graph>()).get(), options.registry),
        whole_builder_((out_.helpers = std::make_unique<Graph>()).get(), options.registry) {}

  Result<Partitioned> run() {
    out_.graph->name = graph_.name;
    for (const Value* input : graph_.inputs()) {
      add_version(input, Layout(), out_.graph->add_input(input->name(), input->type()));
    }
    for (const Value* constant : graph_.constants()) {
      add_version(constant, Layout(),
                  out_.graph->add_constant(constant->name(), constant->constant()));
    }
    for (const auto& node : graph_.nodes()) TUTTI_RETURN_IF_ERROR(add_node(*node));
    for (const Value* output : graph_.outputs()) {
      builder_.set_name(str_cat("output ", output->name()));
      Value* whole = version(output, Layout());
      TUTTI_RETURN_IF_ERROR(builder_.status());
      out_.graph->add_output(whole);
    }
    out_.graph->output_names = graph_.output_names;
    return std::move(out_);
  }

 private:
  struct Version {
    Layout layout;
    Value* value = nullptr;
  };

  Status add_node(const Node& node) {
    const FactorSplit* split = sharding_.find(node);
    const int axis = sharding_.axis;
    const FactorMap map = factors_of(node);
    std::vector<Value*> inputs;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* input = node.input(i);
      builder_.set_name(node.name());
      inputs.push_back(input == nullptr ? nullptr
                                        : version(input, input_layout(map, i, split, axis)));
    }
    const Layout first_output = output_layout(map, 0, split, axis);
    const Layout first = node.inputs().empty() ? Layout() : input_layout(map, 0, split, axis);
    AttributeMap attributes = local_attributes(
        node, local_shape(node.output()->shape(), first_output, mesh_), first, mesh_);
    shift_causal_offset(node, first_output, mesh_, &attributes);
    note_first_row(node, first, mesh_, &attributes);
    builder_.set_name(node.name());
    if (has_windows(first) && only_moves_rows(node, attributes) && may_take(inputs[0])) {
      take_rows(node, inputs[0], output_layout(map, 0, split, axis));
      return {};
    }
    const std::vector<Value*> outputs =
        builder_.ops(node.type(), std::move(inputs), std::move(attributes),
                     static_cast<int>(node.outputs().size()));
    TUTTI_RETURN_IF_ERROR(
        builder_.status().with_context(str_cat("piece of ", node.describe(), " with rule ", map)));
    out_.origins.emplace(outputs[0]->producer(), &node);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Value* whole = node.output(i);
      const Layout layout = output_layout(map, i, split, axis);
      const Shape expected = local_shape(whole->shape(), layout, mesh_);
      if (outputs[i]->shape() != expected) {
        return internal_error("piece of ", node.describe(), " has shape ", outputs[i]->shape(),
                              ", expected ", expected, " for layout ",
                              layout.to_string(whole->shape(), mesh_), " by rule ", map);
      }
      outputs[i]->set_symbolic(whole->symbolic());
      out_.graph->rename(outputs[i], whole->name());
      add_version(whole, layout, outputs[i]);
    }
    return {};
  }

  // The piece of a Slice or Pad that has nothing left to do once its rows have come.
  static bool only_moves_rows(const Node& node, const AttributeMap& attributes) {
    if (node.type() != "Slice" && node.type() != "Pad") return false;
    return std::get<std::vector<std::int64_t>>(attributes.find("axes")->second).empty();
  }

  // Nothing else reads the rows as what they came from.
  bool may_take(const Value* rows) const {
    return rows != nullptr && rows->users().empty() && !out_.origins.contains(rows->producer());
  }

  // The rows that came are the node's piece: their exchange does its work.
  void take_rows(const Node& node, Value* rows, const Layout& layout) {
    const Value* whole = node.output();
    std::erase_if(versions_[node.input(0)],
                  [rows](const Version& version) { return version.value == rows; });
    out_.layouts.erase(rows->name());
    out_.whole_names.erase(rows->name());
    out_.origins.emplace(rows->producer(), &node);
    rows->set_symbolic(whole->symbolic());
    out_.graph->rename(rows, has_windows(layout) ? version_name(*whole, layout) : whole->name());
    add_version(whole, layout, rows);
  }

  // What windows read of a Slice's or Pad's result comes from its operand in one exchange; the
  // result's own pieces, if nobody else reads them, are dead.
  Value* rows_of_operand(const Value* whole, const Layout& wanted) {
    if (!has_windows(wanted) || whole->producer() == nullptr) return nullptr;
    const auto& known = versions_[whole];
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const Version& version) {
      return same_pieces(version.layout, wanted, mesh_);
    });
    const Node& node = *whole->producer();
    const auto windows = windows_of_operand(node, wanted.splits[0]);
    if (is_known || !windows) return nullptr;
    Layout of_operand;
    of_operand.set(*windows);
    Value* rows = version(node.input(0), of_operand);
    if (!may_take(rows)) return nullptr;
    take_rows(node, rows, wanted);
    return rows;
  }

  void add_version(const Value* whole, const Layout& layout, Value* local) {
    versions_[whole].push_back({layout, local});
    add_layout(*whole, *whole, layout, local);
  }

  // `whole` in this layout, converted from the version that costs least to get there.
  Value* version(const Value* whole, const Layout& wanted) {
    if (Value* rows = rows_of_operand(whole, wanted)) return rows;
    std::vector<Version>& known = versions_[whole];
    std::size_t best = 0;
    std::size_t best_moves = 0;
    bool is_found = false;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (same_pieces(known[i].layout, wanted, mesh_)) return known[i].value;
      if (has_windows(known[i].layout)) continue;
      std::size_t moves = 0;
      for (const ConversionStep& step : conversion_steps(known[i].layout, wanted, mesh_)) {
        moves += step.kind == StepKind::kSlice ? 1 : 100;  // slices are nearly free
      }
      if (is_found && moves >= best_moves) continue;
      is_found = true;
      best = i;
      best_moves = moves;
    }
    Version now = known[best];
    for (const ConversionStep& step : conversion_steps(now.layout, wanted, mesh_)) {
      const bool is_slice = step.kind == StepKind::kSlice;  // of the whole, whatever it was before
      const bool has_segments =
          !step.to.segments.empty() || (!is_slice && !step.from.segments.empty());
      // Pieces of constants are cut on loading, in segments or not.
      const bool is_direct = is_slice && sliced_constant(*now.value) != nullptr;
      now.value = has_segments && !is_direct ? add_step_in_segments(*whole, now, step)
                                             : add_step(whole->shape(), now.value, step);
      if (now.value == nullptr) return nullptr;
      now.layout = after_step(std::move(now.layout), step);
      out_.graph->rename(now.value, version_name(*whole, now.layout));
      add_version(whole, now.layout, now.value);
    }
    return now.value;
  }

  std::string version_name(const Value& whole, const Layout& layout) const {
    std::string name = whole.name() + "/";
    for (const Split& split : layout.splits) {
      name += str_cat(mesh_.axes()[static_cast<std::size_t>(split.axis)].name, split.dim);
      if (split.window) name += ".halo";
    }
    return layout.splits.empty() ? name + "whole" : name;
  }

  // Each segment by itself: cut out, converted, and put together again. The exchanges of all
  // segments merge into one.
  Value* add_step_in_segments(const Value& whole, const Version& now, const ConversionStep& step) {
    const bool is_from = !step.from.segments.empty();
    const Split& in_segments = is_from ? step.from : step.to;
    const auto at = static_cast<std::size_t>(in_segments.dim);
    whole_builder_.set_name(whole.name());
    Value* twin = out_.helpers->add_input(whole.name(), whole.type());
    const Dim unit = floor_div(whole.shape()[at], in_segments.units);
    std::vector<Value*> pieces;
    std::vector<Value*> twins;
    Dim start = 0;
    Dim local_start = 0;
    Layout layout;  // of a converted segment
    for (std::size_t i = 0; i < in_segments.segments.size(); ++i) {
      const Dim size = in_segments.segments[i] * unit;
      const Split cut = segment_split(in_segments, i);
      const Dim local_size = is_from ? segment_piece(in_segments, i, mesh_) * unit : size;
      Value* piece =
          builder_.slice(now.value, {in_segments.dim}, {local_start}, {local_start + local_size});
      Value* part = whole_builder_.slice(twin, {in_segments.dim}, {start}, {start + size});
      if (piece == nullptr || part == nullptr) return nullptr;
      start = start + size;
      local_start = local_start + local_size;
      Layout before = now.layout;
      if (is_from) before.set(cut);
      out_.origins.emplace(piece->producer(), part->producer());
      add_layout(*part, whole, before, piece);
      ConversionStep one = step;
      (is_from ? one.from : one.to) = cut;
      layout = after_step(before, one);
      Value* converted = add_step(part->shape(), piece, one);
      if (converted == nullptr) return nullptr;
      add_layout(*part, whole, layout, converted);
      pieces.push_back(converted);
      twins.push_back(part);
    }
    const AttributeMap along = {{"axis", std::int64_t{in_segments.dim}}};
    Value* joined = builder_.op("Concat", pieces, along);
    Value* whole_joined = whole_builder_.op("Concat", twins, along);
    if (joined == nullptr || whole_joined == nullptr) return nullptr;
    out_.origins.emplace(joined->producer(), whole_joined->producer());
    return joined;
  }

  // `local` is a piece of `whole`, which is `source` or a segment of it.
  void add_layout(const Value& whole, const Value& source, const Layout& layout,
                  const Value* local) {
    out_.layouts[local->name()] = {whole.type(), layout};
    out_.whole_names[local->name()] = source.name();
  }

  Value* add_step(const Shape& whole, Value* value, const ConversionStep& step) {
    AttributeMap attributes;
    attributes["axis"] = mesh_.axes()[static_cast<std::size_t>(step.axis)].name;
    attributes["ranks"] = std::int64_t{mesh_.size(step.axis)};
    const auto size_of = [&](const Split& split) {
      return Shape{whole[static_cast<std::size_t>(split.dim)]};
    };
    const auto add_cut = [&](const Split& split) {
      attributes["dim"] = std::int64_t{split.dim};
      attributes["units"] = Shape{split.units};
    };
    const auto add_windows = [&](const Split& split) {
      const SplitWindow window = window_read(split, size_of(split)[0]);
      attributes["rows"] = Shape{window.rows};
      attributes["size"] = Shape{window.size};
      attributes["stride"] = window.map.stride;
      attributes["offset"] = Shape{window.map.offset};
      attributes["extent"] = window.map.extent;
      attributes["edge"] = std::string(window_edge_name(window.map.edge));
    };
    switch (step.kind) {
      case StepKind::kHalo:
        add_cut(step.to);
        add_windows(step.to);
        attributes["from_units"] = Shape{step.from.units};
        return builder_.op("Halo", {value}, std::move(attributes));
      case StepKind::kSlice:
        if (step.to.window) {
          add_cut(step.to);
          add_windows(step.to);
          return builder_.op("WindowSlice", {value}, std::move(attributes));
        }
        add_cut(step.to);
        attributes["replicas"] = std::int64_t{step.to.replicas};
        if (!step.to.segments.empty()) attributes["segments"] = Shape(step.to.segments);
        if (!step.to.grains.empty()) attributes["grains"] = Shape(step.to.grains);
        return builder_.op("ShardSlice", {value}, std::move(attributes));
      case StepKind::kGather:
        add_cut(step.from);
        attributes["replicas"] = std::int64_t{step.from.replicas};
        attributes["size"] = size_of(step.from);
        return builder_.op("AllGather", {value}, std::move(attributes));
      case StepKind::kAllReduce:
        attributes["op"] = std::string("sum");
        return builder_.op("AllReduce", {value}, std::move(attributes));
      case StepKind::kReduceScatter:
        add_cut(step.to);
        attributes["op"] = std::string("sum");
        return builder_.op("ReduceScatter", {value}, std::move(attributes));
      case StepKind::kAllToAll: break;
    }
    using Ints = std::vector<std::int64_t>;
    attributes["from_dims"] = Ints{step.from.dim};
    attributes["from_units"] = Shape{step.from.units};
    attributes["from_replicas"] = Ints{step.from.replicas};
    attributes["to_dims"] = Ints{step.to.dim};
    attributes["to_units"] = Shape{step.to.units};
    attributes["to_replicas"] = Ints{step.to.replicas};
    attributes["sizes"] = size_of(step.from);
    return builder_.op("AllToAll", {value}, std::move(attributes));
  }

  const Graph& graph_;
  const Sharding& sharding_;
  const Mesh& mesh_;
  Partitioned out_;
  GraphBuilder builder_;
  GraphBuilder whole_builder_;  // of helpers
  std::map<const Value*, std::vector<Version>> versions_;
};

}  // namespace

Result<Partitioned> partition(const Graph& graph, const Sharding& sharding,
                              const CompileOptions& options) {
  return Partitioner(graph, sharding, options).run();
}

}  // namespace tutti
