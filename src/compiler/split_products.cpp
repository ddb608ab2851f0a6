// A product whose columns are cut apart right away (gate and up projections, packed q, k, v)
// becomes one product for each piece, with a piece of the weight: no copy of the activations, and
// each can be split over ranks by itself. Reshapes and transposes may stand in between, as in
// [.., 3 * heads * size] -> [.., 3, heads, size], as long as the cut is along their major part.
#include <algorithm>
#include <set>

#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/sharding.h"

namespace tutti {
namespace {

constexpr std::int64_t kMinColumns = 32;  // narrower products waste the kernel's width
constexpr std::size_t kMaxPieces = 4;

// A range of the cut dimension and who reads it.
struct Piece {
  std::int64_t start = 0;
  std::int64_t end = 0;
  Value* output = nullptr;
};

struct CutProduct {
  const Node* product = nullptr;
  Value* bias = nullptr;             // [n], constant
  std::vector<const Node*> between;  // movements, from the product on
  std::vector<int> dims;             // where the cut dimension is in the output of each,
  std::vector<std::int64_t> widths;  // and how many elements of it one cut index has there
  std::int64_t columns = 1;          // of the product for one index of the cut dimension
  std::vector<Piece> pieces;
};

// The ranges that the users of `value` cut it into: one Split, or Slices along one dimension.
// `dim` is that dimension; empty when anything else reads the value.
std::vector<Piece> pieces_of(const Graph& graph, const Value* value, int* dim) {
  std::vector<Piece> pieces;
  if (is_graph_output(graph, value) || value->users().empty()) return {};
  *dim = -1;
  for (const Node* user : value->users()) {
    const bool is_split = user->type() == "Split";
    if (!is_split && user->type() != "Slice") return {};
    if (is_split && value->users().size() != 1) return {};
    const auto axes =
        is_split ? std::vector<std::int64_t>{user->attr_int("axis")} : user->attr_ints("axes");
    const auto steps = user->attr_ints("steps");
    if (axes.size() != 1 || (!steps.empty() && steps[0] != 1)) return {};
    if (*dim >= 0 && axes[0] != *dim) return {};
    *dim = static_cast<int>(axes[0]);
    Dim start = is_split ? Dim(0) : user->attr_dims("starts")[0];
    const Shape sizes =
        is_split ? user->attr_dims("sizes") : Shape{user->attr_dims("ends")[0] - start};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Dim end = start + sizes[i];
      if (!start.is_constant() || !end.is_constant()) return {};
      pieces.push_back({start.constant(), end.constant(), user->output(i)});
      start = end;
    }
  }
  return pieces.size() < 2 || pieces.size() > kMaxPieces ? std::vector<Piece>() : pieces;
}

// Where dimension `dim` of a movement's output starts in its input: the input dimension whose major
// part it is, with `inner` elements of that dimension for each index. Nothing when it is cut
// otherwise.
struct Origin {
  int dim = 0;
  std::int64_t inner = 1;
};
std::optional<Origin> origin_of(const Node& movement, int dim) {
  const FactorMap map = factors_of(movement);
  const auto& factors = map.outputs[0][static_cast<std::size_t>(dim)];
  if (factors.size() != 1) return std::nullopt;
  for (std::size_t d = 0; d < map.inputs[0].size(); ++d) {
    const auto& from = map.inputs[0][d];
    if (from.empty() || from[0] != factors[0]) continue;
    Origin origin{static_cast<int>(d), 1};
    for (std::size_t i = 1; i < from.size(); ++i) {
      const Dim& size = map.factors[static_cast<std::size_t>(from[i])].size;
      if (!size.is_constant()) return std::nullopt;
      origin.inner *= size.constant();
    }
    return origin;
  }
  return std::nullopt;
}

// The product behind a bias, if there is one.
bool match_product(const Graph& graph, Value* x, CutProduct* match) {
  match->product = producer_of(x, "MatMul");
  if (match->product == nullptr) {
    const Node* add = producer_of(x, "Add");
    if (add == nullptr) return false;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      Value* bias = add->input(1 - side);
      match->product = producer_of(add->input(side), "MatMul");
      if (match->product == nullptr || !bias->is_constant() || bias->rank() != 1) continue;
      if (bias->shape()[0] != x->shape().back()) continue;
      match->bias = bias;
      break;
    }
    if (match->bias == nullptr || !has_single_use(graph, match->product->output())) return false;
  }
  const Value* weight = match->product->input(1);
  return weight->is_constant() && weight->rank() == 2;
}

// `value` is what is cut apart.
std::optional<CutProduct> match_cut(const Graph& graph, Value* value) {
  CutProduct match;
  int dim = -1;
  match.pieces = pieces_of(graph, value, &dim);
  if (match.pieces.empty()) return std::nullopt;
  Value* x = value;
  while (x->producer() != nullptr &&
         (x->producer()->type() == "Reshape" || x->producer()->type() == "Transpose")) {
    const Node* movement = x->producer();
    const auto origin = origin_of(*movement, dim);
    if (!origin || !has_single_use(graph, movement->input(0))) return std::nullopt;
    match.between.insert(match.between.begin(), movement);
    match.dims.insert(match.dims.begin(), dim);
    match.widths.insert(match.widths.begin(), match.columns);
    match.columns *= origin->inner;
    dim = origin->dim;
    x = movement->input(0);
  }
  if (dim != static_cast<int>(x->rank()) - 1 || !match_product(graph, x, &match)) {
    return std::nullopt;
  }
  const bool is_wide = std::all_of(
      match.pieces.begin(), match.pieces.end(),
      [&](const Piece& piece) { return (piece.end - piece.start) * match.columns >= kMinColumns; });
  if (!is_wide) return std::nullopt;
  return match;
}

Value* build_piece(const CutProduct& match, const Piece& piece, GraphBuilder& b) {
  const Dim start = piece.start * match.columns;
  const Dim end = piece.end * match.columns;
  Value* weight = b.slice(match.product->input(1), {1}, {start}, {end});
  Value* y = b.op("MatMul", {match.product->input(0), weight});
  if (match.bias != nullptr) y = b.op("Add", {y, b.slice(match.bias, {0}, {start}, {end})});
  for (std::size_t i = 0; i < match.between.size() && y != nullptr; ++i) {
    const Node& movement = *match.between[i];
    if (movement.type() == "Transpose") {
      y = b.transpose(y, movement.attr_ints("perm"));
      continue;
    }
    Shape shape = movement.output()->shape();
    Dim& size = shape[static_cast<std::size_t>(match.dims[i])];
    size = (piece.end - piece.start) * match.widths[i];
    y = b.reshape(y, std::move(shape));
  }
  return y;
}

}  // namespace

Status split_products(Graph& graph, const CompileOptions& options) {
  if (options.evaluator == nullptr) return {};  // nothing would cut the weight at compile time
  GraphBuilder b(&graph, options.registry, options.evaluator);
  std::set<const Value*> seen;
  for (const auto& owned : graph.nodes()) {
    const Node& node = *owned;
    if (node.type() != "Split" && node.type() != "Slice") continue;
    if (!seen.insert(node.input(0)).second) continue;
    const auto match = match_cut(graph, node.input(0));
    if (!match) continue;
    b.set_insertion_point(match->product->output()->users()[0]);
    b.set_name(match->product->name());
    for (const Piece& piece : match->pieces) {
      Value* y = build_piece(*match, piece, b);
      TUTTI_RETURN_IF_ERROR(b.status());
      replace_value(graph, piece.output, y);
    }
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
