#include "runtime/exchange_operands.h"

#include <optional>

namespace tutti {

Result<std::int64_t> single_size(const KernelSpec& spec, std::string_view attribute) {
  const Shape dims = spec.node.attr_dims(attribute);
  if (dims.size() != 1) {
    return invalid_argument("attribute '", attribute, "' has ", dims.size(),
                            " elements, expected 1");
  }
  return dims[0].evaluate(spec.symbols);
}

Status check_dim(std::int64_t dim, const TensorDesc& desc) {
  if (dim >= 0 && dim < static_cast<std::int64_t>(desc.dims.size())) return {};
  return invalid_argument("dimension ", dim, " is outside [0, ", desc.dims.size(), ")");
}

Result<PieceSplit> split_of(const KernelSpec& spec) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t units, single_size(spec, "units"));
  return PieceSplit{static_cast<int>(spec.node.attr_int("dim")), units,
                    static_cast<int>(spec.node.attr_int("replicas", 1))};
}

Result<TransferOperand> window_operand(const KernelSpec& spec) {
  const Node& node = spec.node;
  const TensorDesc& x = spec.inputs[0];
  PieceSplit to{static_cast<int>(node.attr_int("dim")), 0, 1, PieceWindow()};
  TUTTI_RETURN_IF_ERROR(check_dim(to.dim, x));
  TUTTI_ASSIGN_OR_RETURN(to.units, single_size(spec, "units"));
  TUTTI_ASSIGN_OR_RETURN(to.window->rows, single_size(spec, "rows"));
  TUTTI_ASSIGN_OR_RETURN(to.window->offset, single_size(spec, "offset"));
  to.window->stride = node.attr_int("stride");
  to.window->extent = node.attr_int("extent");
  const auto edge = parse_window_edge(node.attr_string("edge"));
  if (!edge) return invalid_argument("attribute 'edge' is '", node.attr_string("edge"), "'");
  to.window->edge = *edge;
  TransferOperand operand{x.dims, dtype_size(x.dtype), std::nullopt, to};
  TUTTI_ASSIGN_OR_RETURN(operand.dims[static_cast<std::size_t>(to.dim)], single_size(spec, "size"));
  if (node.type() == "Halo") {
    operand.from = PieceSplit{to.dim, 0, 1};
    TUTTI_ASSIGN_OR_RETURN(operand.from->units, single_size(spec, "from_units"));
  }
  return operand;
}

Result<std::vector<TransferOperand>> gather_operands(const KernelSpec& spec) {
  const Node& node = spec.node;
  TUTTI_ASSIGN_OR_RETURN(const Dims units, evaluate(node.attr_dims("units"), spec.symbols));
  TUTTI_ASSIGN_OR_RETURN(const Dims sizes, evaluate(node.attr_dims("size"), spec.symbols));
  for (const std::size_t length : {units.size(), sizes.size()}) {
    if (length == 1 || length == spec.inputs.size()) continue;
    return invalid_argument("a list of ", length, " elements for ", spec.inputs.size(),
                            " operands");
  }
  std::vector<TransferOperand> operands;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const TensorDesc& piece = spec.inputs[i];
    const PieceSplit split{static_cast<int>(node.attr_int("dim")), units[units.size() == 1 ? 0 : i],
                           static_cast<int>(node.attr_int("replicas", 1))};
    TUTTI_RETURN_IF_ERROR(check_dim(split.dim, piece));
    Dims whole = piece.dims;
    whole[static_cast<std::size_t>(split.dim)] = sizes[sizes.size() == 1 ? 0 : i];
    operands.push_back({std::move(whole), dtype_size(piece.dtype), split, std::nullopt});
  }
  return operands;
}

Result<std::vector<TransferOperand>> all_to_all_operands(const KernelSpec& spec) {
  const Node& node = spec.node;
  const std::vector<std::int64_t> from_dims = node.attr_ints("from_dims");
  const std::vector<std::int64_t> from_replicas = node.attr_ints("from_replicas");
  const std::vector<std::int64_t> to_dims = node.attr_ints("to_dims");
  const std::vector<std::int64_t> to_replicas = node.attr_ints("to_replicas");
  TUTTI_ASSIGN_OR_RETURN(const Dims from_units,
                         evaluate(node.attr_dims("from_units"), spec.symbols));
  TUTTI_ASSIGN_OR_RETURN(const Dims to_units, evaluate(node.attr_dims("to_units"), spec.symbols));
  TUTTI_ASSIGN_OR_RETURN(const Dims sizes, evaluate(node.attr_dims("sizes"), spec.symbols));
  const std::size_t count = spec.inputs.size();
  for (const std::size_t length :
       {from_dims.size(), from_replicas.size(), to_dims.size(), to_replicas.size(),
        from_units.size(), to_units.size(), sizes.size(), spec.outputs.size()}) {
    if (length != count) {
      return invalid_argument("a list of ", length, " elements for ", count, " operands");
    }
  }
  std::vector<TransferOperand> operands;
  for (std::size_t i = 0; i < count; ++i) {
    TUTTI_RETURN_IF_ERROR(check_dim(from_dims[i], spec.inputs[i]));
    TUTTI_RETURN_IF_ERROR(check_dim(to_dims[i], spec.inputs[i]));
    TransferOperand operand;
    operand.dims = spec.inputs[i].dims;
    operand.dims[static_cast<std::size_t>(from_dims[i])] = sizes[i];
    operand.element_size = dtype_size(spec.inputs[i].dtype);
    operand.from = PieceSplit{static_cast<int>(from_dims[i]), from_units[i],
                              static_cast<int>(from_replicas[i])};
    operand.to =
        PieceSplit{static_cast<int>(to_dims[i]), to_units[i], static_cast<int>(to_replicas[i])};
    operands.push_back(std::move(operand));
  }
  return operands;
}

Status check_sizes(const KernelSpec& spec, std::span<const TransferOperand> operands, int ranks,
                   int rank) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Dims from = piece_dims(operands[i].dims, operands[i].from, ranks, rank);
    const Dims to = piece_dims(operands[i].dims, operands[i].to, ranks, rank);
    if (spec.inputs[i].dims != from) {
      return invalid_argument("input ", i, " has sizes ", spec.inputs[i].dims, ", expected ", from);
    }
    if (spec.outputs[i].dims != to) {
      return invalid_argument("output ", i, " has sizes ", spec.outputs[i].dims, ", expected ", to);
    }
  }
  return {};
}

}  // namespace tutti
