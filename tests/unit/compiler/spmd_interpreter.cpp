#include "spmd_interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace tutti {
namespace {

// The units of a dimension that a rank holds, in the order of its piece.
std::vector<std::int64_t> units_of_rank(std::int64_t units, std::int64_t replicas, int ranks,
                                        int rank) {
  std::vector<std::int64_t> held;
  const std::int64_t first = part_offset(units * replicas, ranks, rank);
  for (std::int64_t i = 0; i < part_size(units * replicas, ranks, rank); ++i) {
    held.push_back((first + i) / replicas);
  }
  return held;
}

struct Rows {
  std::int64_t outer = 1;  // product of the sizes before the dimension
  std::int64_t inner = 1;  // bytes of one index of the dimension
};
Rows rows_of(const TensorDesc& desc, std::size_t dim) {
  Rows rows;
  for (std::size_t d = 0; d < desc.dims.size(); ++d) {
    if (d < dim) rows.outer *= desc.dims[d];
    if (d > dim) rows.inner *= desc.dims[d];
  }
  rows.inner *= static_cast<std::int64_t>(dtype_size(desc.dtype));
  return rows;
}

struct Cut {
  std::size_t dim = 0;
  std::int64_t units = 1;
  std::int64_t replicas = 1;
  std::vector<std::int64_t> segments = {};
  std::vector<std::int64_t> grains = {};
};

std::vector<std::int64_t> units_held(const Cut& c, int ranks, int rank) {
  if (c.segments.empty()) return units_of_rank(c.units, c.replicas, ranks, rank);
  std::vector<std::int64_t> held;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < c.segments.size(); ++i) {
    const std::int64_t grain = c.grains.empty() ? 1 : c.grains[i];
    for (const std::int64_t run : units_of_rank(c.segments[i] / grain, 1, ranks, rank)) {
      for (std::int64_t u = 0; u < grain; ++u) held.push_back(start + run * grain + u);
    }
    start += c.segments[i];
  }
  return held;
}

Tensor cut(const Tensor& whole, const Cut& c, int ranks, int rank) {
  const std::int64_t size = whole.dims()[c.dim];
  const std::int64_t unit = size / c.units;
  const std::vector<std::int64_t> held = units_held(c, ranks, rank);
  Dims dims = whole.dims();
  dims[c.dim] = static_cast<std::int64_t>(held.size()) * unit;
  Tensor piece = *Tensor::allocate(whole.dtype(), dims);
  const Rows rows = rows_of(whole.desc(), c.dim);
  std::byte* target = piece.mutable_data();
  for (std::int64_t o = 0; o < rows.outer; ++o) {
    for (const std::int64_t u : held) {
      std::memcpy(target, whole.data() + (o * size + u * unit) * rows.inner,
                  static_cast<std::size_t>(unit * rows.inner));
      target += unit * rows.inner;
    }
  }
  return piece;
}

Tensor join(const std::vector<Tensor>& pieces, const Cut& c, std::int64_t size) {
  const int ranks = static_cast<int>(pieces.size());
  Dims dims = pieces[0].dims();
  dims[c.dim] = size;
  Tensor whole = *Tensor::allocate(pieces[0].dtype(), dims);
  const Rows rows = rows_of(whole.desc(), c.dim);
  const std::int64_t unit = size / c.units;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto held = units_held(c, ranks, rank);
    const std::byte* source = pieces[static_cast<std::size_t>(rank)].data();
    for (std::int64_t o = 0; o < rows.outer; ++o) {
      for (const std::int64_t u : held) {
        std::memcpy(whole.mutable_data() + (o * size + u * unit) * rows.inner, source,
                    static_cast<std::size_t>(unit * rows.inner));
        source += unit * rows.inner;
      }
    }
  }
  return whole;
}

// What the windows of a Halo or WindowSlice read on one rank, position by position: rows of the
// operand, or -1 for a number that stands behind its edge. Rows between windows are -1, too.
struct WindowsOfRank {
  std::int64_t size = 0;
  std::vector<std::int64_t> rows;

  WindowsOfRank(const Node& node, const SymbolMap& sizes, int ranks, int rank) {
    const auto number = [&](std::string_view name) {
      return *node.attr_dims(name)[0].evaluate(sizes);
    };
    size = number("size");
    const std::int64_t units = number("units");
    const std::int64_t unit = units == 0 ? 0 : number("rows") / units;
    const std::int64_t first = part_offset(units, ranks, rank) * unit;
    const std::int64_t count = part_size(units, ranks, rank) * unit;
    const std::int64_t stride = node.attr_int("stride");
    const std::int64_t extent = node.attr_int("extent");
    rows.assign(
        static_cast<std::size_t>(count * stride + std::max<std::int64_t>(0, extent - stride)), -1);
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < extent; ++j) {
        std::int64_t row = (first + i) * stride + number("offset") + j;
        const std::string edge = node.attr_string("edge");
        const bool is_number = edge == "zero" || edge == "lowest";
        while (!is_number && (row < 0 || row >= size)) {
          if (edge == "edge") row = row < 0 ? 0 : size - 1;
          if (edge == "wrap") row += row < 0 ? size : -size;
          if (edge == "reflect") row = size == 1 ? 0 : row < 0 ? -row : 2 * (size - 1) - row;
        }
        rows[static_cast<std::size_t>(i * stride + j)] = row < 0 || row >= size ? -1 : row;
      }
    }
  }
};

Tensor read_windows(const Tensor& whole, const Node& node, const WindowsOfRank& windows) {
  const auto dim = static_cast<std::size_t>(node.attr_int("dim"));
  const float number =
      node.attr_string("edge") == "lowest" ? -std::numeric_limits<float>::infinity() : 0;
  Dims dims = whole.dims();
  dims[dim] = std::ssize(windows.rows);
  Tensor piece = *Tensor::allocate(whole.dtype(), dims);
  const Rows rows = rows_of(whole.desc(), dim);
  std::byte* target = piece.mutable_data();
  for (std::int64_t o = 0; o < rows.outer; ++o) {
    for (const std::int64_t row : windows.rows) {
      for (std::int64_t i = 0; row < 0 && i < rows.inner; i += 4) {
        std::memcpy(target + i, &number, 4);
      }
      if (row >= 0) {
        std::memcpy(target, whole.data() + (o * windows.size + row) * rows.inner,
                    static_cast<std::size_t>(rows.inner));
      }
      target += rows.inner;
    }
  }
  return piece;
}

Tensor sum(const std::vector<Tensor>& parts) {
  Tensor out = *Tensor::allocate(DType::kFloat32, parts[0].dims());
  for (std::int64_t i = 0; i < out.element_count(); ++i) {
    float total = 0;
    for (const Tensor& part : parts) total += part.data_as<float>()[i];
    out.mutable_data_as<float>()[i] = total;
  }
  return out;
}

}  // namespace

Tensor random_f32(Dims dims, unsigned seed) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, std::move(dims));
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    state = state * 1664525 + 1013904223;
    tensor.mutable_data_as<float>()[i] = static_cast<float>(state >> 8) / (1 << 23) - 1.0F;
  }
  return tensor;
}

SymbolMap bind_sizes(const std::vector<GlobalTensor>& inputs, const NamedTensors& tensors) {
  SymbolMap symbols;
  for (const GlobalTensor& input : inputs) {
    const Tensor& tensor = tensors.at(input.name);
    for (std::size_t d = 0; d < tensor.rank(); ++d) {
      if (const auto name = input.type.shape[d].as_symbol()) symbols[*name] = tensor.dims()[d];
    }
  }
  return symbols;
}

Result<std::vector<Tensor>> SpmdInterpreter::run_body(const Graph& body,
                                                      const std::vector<Tensor>& inputs,
                                                      const SymbolMap& symbols) {
  std::map<const Value*, Tensor> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[body.inputs()[i]] = inputs[i];
  for (const auto& node : body.nodes()) {
    std::vector<Tensor> operands;
    for (const Value* input : node->inputs()) {
      operands.push_back(input == nullptr ? Tensor() : values.at(input));
    }
    TUTTI_ASSIGN_OR_RETURN(const auto results, run_node(*node, operands, symbols));
    for (std::size_t i = 0; i < results.size(); ++i) values[node->output(i)] = results[i];
  }
  std::vector<Tensor> outputs;
  for (const Value* output : body.outputs()) outputs.push_back(values.at(output));
  return outputs;
}

Result<std::vector<Tensor>> SpmdInterpreter::run_node(const Node& node,
                                                      const std::vector<Tensor>& inputs,
                                                      const SymbolMap& symbols) {
  // As in the run time, nobody asks about a piece that has nothing to compute.
  std::vector<Tensor> empty;
  for (const Value* output : node.outputs()) {
    TUTTI_ASSIGN_OR_RETURN(const Dims dims, evaluate(output->shape(), symbols));
    if (element_count(dims) > 0) break;
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(output->dtype(), dims));
    empty.push_back(std::move(tensor));
  }
  if (empty.size() == node.outputs().size()) return empty;
  if (node.type() == "Fused") return run_body(*node.attr_graph("body"), inputs, symbols);
  Graph scratch;
  std::vector<Value*> operands;
  for (const Tensor& tensor : inputs) {
    operands.push_back(tensor.defined() ? scratch.add_constant("", tensor) : nullptr);
  }
  AttributeMap attributes = node.attributes();
  for (auto& [name, attribute] : attributes) {
    Shape* dims = std::get_if<Shape>(&attribute);
    if (dims == nullptr) continue;
    for (Dim& dim : *dims) dim = dim.substitute(symbols);
  }
  const int outputs = static_cast<int>(node.outputs().size());
  Node* twin = scratch.add_node(node.op(), node.name(), operands, std::move(attributes),
                                std::vector<TensorType>(node.outputs().size()));
  TUTTI_ASSIGN_OR_RETURN(const auto types, node.op().infer(*twin, outputs));
  for (int i = 0; i < outputs; ++i) {
    twin->output(static_cast<std::size_t>(i))->set_type(types[static_cast<std::size_t>(i)]);
    const Shape& declared = node.output(static_cast<std::size_t>(i))->shape();
    TUTTI_ASSIGN_OR_RETURN(const Dims expected, evaluate(declared, symbols));
    if (to_shape(expected) != types[static_cast<std::size_t>(i)].shape) {
      return internal_error(node.describe(), " makes ", types[static_cast<std::size_t>(i)],
                            ", its type says ", expected);
    }
  }
  auto result = evaluator_.evaluate(*twin);
  if (!result.ok()) return result.status().with_context(node.describe());
  return result;
}

Status SpmdInterpreter::run_exchange(const Node& node, const Mesh& mesh,
                                     const std::vector<SymbolMap>& symbols, RankValues* values) {
  const int axis = mesh.find(node.attr_string("axis"));
  const int ranks = mesh.size(axis);
  std::vector<std::vector<Tensor>> results(values->size());
  for (int leader = 0; leader < mesh.num_ranks(); ++leader) {
    if (mesh.coordinate(leader, axis) != 0) continue;
    const std::vector<int> peers = mesh.peers(leader, axis);
    const auto number = [&](const Dim& dim) {
      return *dim.evaluate(symbols[static_cast<std::size_t>(leader)]);
    };
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      std::vector<Tensor> pieces;
      for (const int peer : peers) {
        pieces.push_back((*values)[static_cast<std::size_t>(peer)].at(node.input(i)));
      }
      Tensor whole;
      std::optional<Cut> to;
      if (node.type() == "AllToAll") {
        const Cut from{static_cast<std::size_t>(node.attr_ints("from_dims")[i]),
                       number(node.attr_dims("from_units")[i]), node.attr_ints("from_replicas")[i]};
        to = Cut{static_cast<std::size_t>(node.attr_ints("to_dims")[i]),
                 number(node.attr_dims("to_units")[i]), node.attr_ints("to_replicas")[i]};
        whole = join(pieces, from, number(node.attr_dims("sizes")[i]));
        // By definition: a rank needs its new units of what the others hold.
        for (int p = 0; p < ranks; ++p) {
          for (int q = 0; q < ranks; ++q) {
            if (p == q) continue;
            const auto held = units_of_rank(to->units, to->replicas, ranks, q);
            const auto needed = std::set<std::int64_t>(held.begin(), held.end()).size();
            moved_bytes_ +=
                static_cast<std::int64_t>(pieces[static_cast<std::size_t>(p)].byte_size() /
                                          static_cast<std::size_t>(to->units) * needed);
          }
        }
      } else if (node.type() == "Halo") {
        const Cut from{static_cast<std::size_t>(node.attr_int("dim")),
                       number(node.attr_dims("from_units")[0]), 1};
        whole = join(pieces, from, number(node.attr_dims("size")[0]));
        for (int p = 0; p < ranks; ++p) {
          const WindowsOfRank windows(node, symbols[static_cast<std::size_t>(leader)], ranks, p);
          const auto rank = static_cast<std::size_t>(peers[static_cast<std::size_t>(p)]);
          results[rank].push_back(read_windows(whole, node, windows));
          const std::int64_t unit = from.units == 0 ? 1 : windows.size / from.units;
          const auto held = units_of_rank(from.units, 1, ranks, p);
          std::set<std::int64_t> lacking(windows.rows.begin(), windows.rows.end());
          std::erase_if(lacking, [&](std::int64_t row) {
            return row < 0 || std::find(held.begin(), held.end(), row / unit) != held.end();
          });
          moved_bytes_ += std::ssize(lacking) * rows_of(whole.desc(), from.dim).outer *
                          rows_of(whole.desc(), from.dim).inner;
        }
        continue;
      } else if (node.type() == "AllGather") {
        const Shape units = node.attr_dims("units");
        const Shape sizes = node.attr_dims("size");
        const Cut from{static_cast<std::size_t>(node.attr_int("dim")),
                       number(units[units.size() == 1 ? 0 : i]), node.attr_int("replicas", 1)};
        whole = join(pieces, from, number(sizes[sizes.size() == 1 ? 0 : i]));
        for (const Tensor& piece : pieces) {
          moved_bytes_ += static_cast<std::int64_t>(piece.byte_size()) * (ranks - 1);
        }
      } else {
        whole = sum(pieces);
        if (node.type() == "ReduceScatter") {
          to = Cut{static_cast<std::size_t>(node.attr_int("dim")),
                   number(node.attr_dims("units")[0]), 1};
        }
      }
      for (int p = 0; p < ranks; ++p) {
        const auto rank = static_cast<std::size_t>(peers[static_cast<std::size_t>(p)]);
        results[rank].push_back(to ? cut(whole, *to, ranks, p) : whole);
      }
    }
  }
  for (std::size_t rank = 0; rank < values->size(); ++rank) {
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      (*values)[rank][node.output(i)] = results[rank][i];
    }
  }
  return {};
}

// By definition: put keys and values together, then attend.
Status SpmdInterpreter::run_ring(const Node& node, const Mesh& mesh,
                                 const std::vector<SymbolMap>& symbols, RankValues* values) {
  const int axis = mesh.find(node.attr_string("axis"));
  const std::int64_t size = *node.attr_dims("size")[0].evaluate(symbols[0]);
  const std::size_t tokens = node.attr_string("layout") == "bshd" ? 1 : 2;
  const std::vector<std::int64_t> segments = *evaluate(node.attr_dims("segments"), symbols[0]);
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      if (node.input(i) == nullptr) {
        operands.emplace_back();
        continue;
      }
      if (i != 1 && i != 2) {
        operands.push_back((*values)[r].at(node.input(i)));
        continue;
      }
      std::vector<Tensor> pieces;
      for (const int peer : mesh.peers(rank, axis)) {
        pieces.push_back((*values)[static_cast<std::size_t>(peer)].at(node.input(i)));
      }
      operands.push_back(join(pieces, {tokens, size, 1, segments}, size));
      moved_bytes_ += static_cast<std::int64_t>((*values)[r].at(node.input(i)).byte_size()) *
                      (mesh.size(axis) - 1);
    }
    Graph scratch;
    std::vector<Value*> inputs;
    for (const Tensor& tensor : operands) {
      inputs.push_back(tensor.defined() ? scratch.add_constant("", tensor) : nullptr);
    }
    AttributeMap attributes = node.attributes();
    for (const char* name : {"axis", "ranks", "size", "segments"}) {
      if (const auto it = attributes.find(name); it != attributes.end()) attributes.erase(it);
    }
    Node* whole = scratch.add_node(*ops_->find("Attention"), node.name(), inputs,
                                   std::move(attributes), {node.output()->type()});
    TUTTI_ASSIGN_OR_RETURN(auto results, run_node(*whole, operands, symbols[r]));
    (*values)[r][node.output()] = results[0];
  }
  return {};
}

Status SpmdInterpreter::run_graph(const Graph& graph, const Mesh& mesh,
                                  const std::vector<SymbolMap>& symbols,
                                  const std::vector<NamedTensors>& inputs, RankValues* values) {
  values->assign(symbols.size(), {});
  for (std::size_t rank = 0; rank < symbols.size(); ++rank) {
    for (const Value* input : graph.inputs()) {
      (*values)[rank][input] = inputs[rank].at(input->name());
    }
    for (const Value* constant : graph.constants()) {
      (*values)[rank][constant] = constant->constant();
    }
  }
  for (const auto& node : graph.nodes()) {
    if (node->type() == "RingAttention" || node->type() == "JoinedRingAttention") {
      TUTTI_RETURN_IF_ERROR(run_ring(*node, mesh, symbols, values));
      continue;
    }
    if (node->op().is_exchange) {
      TUTTI_RETURN_IF_ERROR(run_exchange(*node, mesh, symbols, values));
      continue;
    }
    for (std::size_t rank = 0; rank < symbols.size(); ++rank) {
      std::vector<Tensor> operands;
      for (const Value* input : node->inputs()) {
        operands.push_back(input == nullptr ? Tensor() : (*values)[rank].at(input));
      }
      std::vector<Tensor> results;
      if (node->type() == "ShardSlice") {
        const int axis = mesh.find(node->attr_string("axis"));
        const Cut to{static_cast<std::size_t>(node->attr_int("dim")),
                     *node->attr_dims("units")[0].evaluate(symbols[rank]),
                     node->attr_int("replicas", 1),
                     *evaluate(node->attr_dims("segments"), symbols[rank]),
                     *evaluate(node->attr_dims("grains"), symbols[rank])};
        results = {
            cut(operands[0], to, mesh.size(axis), mesh.coordinate(static_cast<int>(rank), axis))};
      } else if (node->type() == "WindowSlice") {
        const int axis = mesh.find(node->attr_string("axis"));
        const WindowsOfRank windows(*node, symbols[rank], mesh.size(axis),
                                    mesh.coordinate(static_cast<int>(rank), axis));
        results = {read_windows(operands[0], *node, windows)};
      } else {
        TUTTI_ASSIGN_OR_RETURN(results, run_node(*node, operands, symbols[rank]));
      }
      for (std::size_t i = 0; i < results.size(); ++i)
        (*values)[rank][node->output(i)] = results[i];
    }
  }
  return {};
}

Result<std::vector<std::vector<Tensor>>> SpmdInterpreter::run(const CompiledModel& model,
                                                              const NamedTensors& inputs) {
  moved_bytes_ = 0;
  const SymbolMap sizes = bind_sizes(model.inputs, inputs);
  std::vector<SymbolMap> symbols;
  for (int rank = 0; rank < model.mesh.num_ranks(); ++rank) {
    symbols.push_back(sizes);
    model.mesh.bind(rank, &symbols.back());
  }
  std::vector<NamedTensors> by_rank(symbols.size(), inputs);
  RankValues values;
  if (model.prologue != nullptr) {
    TUTTI_RETURN_IF_ERROR(run_graph(*model.prologue, model.mesh, symbols, by_rank, &values));
    for (std::size_t rank = 0; rank < symbols.size(); ++rank) {
      for (const Value* output : model.prologue->outputs()) {
        by_rank[rank][output->name()] = values[rank].at(output);
      }
    }
  }
  TUTTI_RETURN_IF_ERROR(run_graph(*model.main, model.mesh, symbols, by_rank, &values));
  std::vector<std::vector<Tensor>> outputs(symbols.size());
  for (std::size_t rank = 0; rank < symbols.size(); ++rank) {
    for (const Value* output : model.main->outputs())
      outputs[rank].push_back(values[rank].at(output));
  }
  return outputs;
}

Result<std::vector<Tensor>> SpmdInterpreter::run_whole(const Graph& graph,
                                                       const NamedTensors& inputs,
                                                       const SymbolMap& sizes) {
  RankValues values;
  TUTTI_RETURN_IF_ERROR(run_graph(graph, Mesh(), {sizes}, {inputs}, &values));
  std::vector<Tensor> outputs;
  for (const Value* output : graph.outputs()) outputs.push_back(values[0].at(output));
  return outputs;
}

double relative_error(const Tensor& a, const Tensor& b) {
  if (a.desc() != b.desc()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double error = 0;
  for (std::int64_t i = 0; i < a.element_count(); ++i) {
    const double x = a.data_as<float>()[i];
    const double y = b.data_as<float>()[i];
    if (std::isnan(x) != std::isnan(y)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(y));
    error = std::max(error, std::abs(x - y));
  }
  return largest > 0 ? error / largest : error;
}

}  // namespace tutti
