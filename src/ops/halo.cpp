// Rows that windows along a split dimension reach into: from pieces (Halo) and from a value that
// every rank has (WindowSlice).
#include "ops/common.h"
#include "ops/families.h"

namespace tutti {
namespace {

// What both operators say: dimension `dim` of the operand has `size` rows and is read through the
// windows of a result of `rows` rows, of which the ranks hold pieces of `units` units.
struct WindowCut {
  Dim rank;
  std::int64_t ranks = 1;
  std::size_t dim = 0;
  Dim size;
  Dim rows;
  Dim units;
  WindowMap map;
};

Result<Dim> one_dim(const Node& node, std::string_view name) {
  const Shape dims = node.attr_dims(name);
  if (dims.size() == 1) return dims[0];
  return invalid_argument("attribute '", name, "' has ", dims.size(), " elements, expected 1");
}

Result<WindowCut> window_cut(const Node& node) {
  WindowCut cut;
  const std::string axis = node.attr_string("axis");
  if (axis.empty()) return invalid_argument("attribute 'axis' is empty; a mesh axis is expected");
  cut.rank = Dim::symbol("rank." + axis);
  cut.ranks = node.attr_int("ranks");
  if (cut.ranks < 1) return invalid_argument("attribute 'ranks' is ", cut.ranks, ", expected >= 1");
  const std::int64_t dim = node.attr_int("dim");
  TUTTI_RETURN_IF_ERROR(check_axis(dim, node.input(0)->rank()));
  cut.dim = static_cast<std::size_t>(dim);
  TUTTI_ASSIGN_OR_RETURN(cut.size, one_dim(node, "size"));
  TUTTI_ASSIGN_OR_RETURN(cut.rows, one_dim(node, "rows"));
  TUTTI_ASSIGN_OR_RETURN(cut.units, one_dim(node, "units"));
  TUTTI_ASSIGN_OR_RETURN(cut.map.offset, one_dim(node, "offset"));
  cut.map.stride = node.attr_int("stride");
  cut.map.extent = node.attr_int("extent");
  if (cut.map.stride < 1 || cut.map.extent < 1) {
    return invalid_argument("stride ", cut.map.stride, " and extent ", cut.map.extent,
                            ", expected 1 or more");
  }
  const auto edge = parse_window_edge(node.attr_string("edge"));
  if (!edge) {
    return invalid_argument("attribute 'edge' is '", node.attr_string("edge"),
                            "', expected zero, lowest, edge, reflect or wrap");
  }
  cut.map.edge = *edge;
  return cut;
}

Result<Dim> unit_size(const Dim& size, const Dim& units, std::string_view what) {
  if (const auto unit = exact_div(size, units)) return *unit;
  return invalid_argument(what, " of ", size, " rows is not a whole number of ", units, " units");
}

Status expect_rows(const Value& operand, std::size_t dim, const Dim& expected) {
  if (operand.shape()[dim] == expected) return {};
  return invalid_argument("operand ", operand.type(), " has ", operand.shape()[dim],
                          " rows along dimension ", dim, ", expected ", expected);
}

Result<std::vector<TensorType>> windowed_type(const Node& node, const WindowCut& cut) {
  TUTTI_ASSIGN_OR_RETURN(const Dim unit, unit_size(cut.rows, cut.units, "a result"));
  TensorType type = node.input(0)->type();
  type.shape[cut.dim] = cut.map.span(unit * part(cut.units, cut.ranks, cut.rank));
  return std::vector<TensorType>{std::move(type)};
}

Result<std::vector<TensorType>> infer_window_slice(const Node& node, int) {
  TUTTI_ASSIGN_OR_RETURN(const WindowCut cut, window_cut(node));
  TUTTI_RETURN_IF_ERROR(expect_rows(*node.input(0), cut.dim, cut.size));
  return windowed_type(node, cut);
}

Result<std::vector<TensorType>> infer_halo(const Node& node, int) {
  TUTTI_ASSIGN_OR_RETURN(const WindowCut cut, window_cut(node));
  TUTTI_ASSIGN_OR_RETURN(const Dim from_units, one_dim(node, "from_units"));
  TUTTI_ASSIGN_OR_RETURN(const Dim unit, unit_size(cut.size, from_units, "an operand"));
  TUTTI_RETURN_IF_ERROR(
      expect_rows(*node.input(0), cut.dim, unit * part(from_units, cut.ranks, cut.rank)));
  return windowed_type(node, cut);
}

// Along another mesh axis, it works on pieces of what it leaves alone.
FactorMap halo_factors(const Node& node) {
  return along_axes_factors(node, {node.attr_int("dim")});
}

Dim no_flops(const Node&) { return 0; }

}  // namespace

void register_halo_ops(OpRegistry* ops, LoweringRegistry* /*lowerings*/) {
  OpDef slice;
  slice.type = "WindowSlice";
  slice.domain = "ai.tutti";
  slice.attributes = {
      {"axis", AttributeKind::kString, true}, {"ranks", AttributeKind::kInt, true},
      {"dim", AttributeKind::kInt, true},     {"size", AttributeKind::kDims, true},
      {"rows", AttributeKind::kDims, true},   {"units", AttributeKind::kDims, true},
      {"stride", AttributeKind::kInt, true},  {"offset", AttributeKind::kDims, true},
      {"extent", AttributeKind::kInt, true},  {"edge", AttributeKind::kString, true}};
  slice.infer = infer_window_slice;
  slice.factors = halo_factors;
  slice.flops = no_flops;
  OpDef halo = slice;
  halo.type = "Halo";
  halo.attributes.push_back({"from_units", AttributeKind::kDims, true});
  halo.infer = infer_halo;
  halo.is_exchange = true;
  ops->add(std::move(slice));
  ops->add(std::move(halo));
}

}  // namespace tutti
