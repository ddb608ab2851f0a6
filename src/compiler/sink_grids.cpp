// op(reshape(x)) -> reshape(op(x)) where the reshape lays tokens out on a grid (frames, height,
// width) and all that is left to do up to the model's results is work on single rows and movement.
// A split of the tokens mostly ends at such a reshape, since its cuts do not fall on rows of the
// grid: what stands behind it would be done on all ranks, after a gather of all its operands.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

using Permutation = std::vector<std::int64_t>;

// Dimensions [first, first + count) of a grid are one dimension of its rows: `first`. The grid then
// stands in the order of `perm`.
struct Grid {
  std::size_t first = 0;
  Shape sizes;
  Permutation perm;  // of the grid's dimensions

  std::size_t count() const { return sizes.size(); }
  bool operator==(const Grid&) const = default;
};

// A value that is `rows` on a grid.
struct OnGrid {
  Value* rows = nullptr;
  Grid grid;
};

Permutation identity(std::size_t rank) {
  Permutation perm(rank);
  for (std::size_t d = 0; d < rank; ++d) perm[d] = static_cast<std::int64_t>(d);
  return perm;
}

// Of a Reshape that cuts one dimension, not the last one, into several, and leaves the others.
std::optional<OnGrid> from_reshape(const Value* value) {
  const Node* node = producer_of(value, "Reshape");
  if (node == nullptr) return std::nullopt;
  const Shape& rows = node->input(0)->shape();
  const Shape& grid = value->shape();
  if (rows.size() < 2 || grid.size() <= rows.size()) return std::nullopt;
  const std::size_t count = grid.size() - rows.size() + 1;
  for (std::size_t first = 0; first + 1 < rows.size(); ++first) {
    const auto begin = grid.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    Shape sizes(begin, end);
    const bool is_same_behind =
        std::equal(end, grid.end(), rows.begin() + static_cast<std::ptrdiff_t>(first) + 1);
    if (is_same_behind && product(sizes) == rows[first]) {
      return OnGrid{node->input(0), {first, std::move(sizes), identity(grid.size())}};
    }
    if (rows[first] != grid[first]) break;
  }
  return std::nullopt;
}

std::optional<OnGrid> on_grid(const Value* value) {
  const Node* transpose = producer_of(value, "Transpose");
  auto found = from_reshape(transpose == nullptr ? value : transpose->input(0));
  if (found && transpose != nullptr) found->grid.perm = permutation_of(*transpose);
  return found;
}

// A convolution that looks at one place: a product with its kernel for each.
bool is_product(const Node& node) {
  if (node.type() != "Conv" || node.attr_int("group") != 1) return false;
  const Value* kernel = node.input(1);
  const auto all = [&](const char* name, std::int64_t number) {
    const auto numbers = node.attr_ints(name);
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](std::int64_t one) { return one == number; });
  };
  const bool is_point = std::all_of(kernel->shape().begin() + 2, kernel->shape().end(),
                                    [](const Dim& size) { return size.is(1); });
  return is_point && kernel->is_constant() && all("strides", 1) && all("pads", 0);
}

bool works_on_rows(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {
      "LayerNormalization", "RMSNormalization", "Reshape", "Slice", "Transpose"};
  const bool is_linear = node.type() == "MatMul" && node.input(1)->is_constant() &&
                         node.input(1)->rank() == 2 && node.input(0)->rank() >= 2;
  return node.op().is_pointwise || kTypes.contains(node.type()) || is_linear || is_product(node);
}

class GridSinker {
 public:
  GridSinker(Graph& graph, const CompileOptions& options)
      : graph_(graph), builder_(&graph, options.registry, options.evaluator) {}

  Result<bool> run() {
    find_tail();
    bool changed = false;
    // In execution order, so one walk carries a grid as far as it goes.
    for (Node* node : tail_) {
      builder_.set_insertion_point(node);
      builder_.set_name(node->name());
      changed |= sink_past(*node);
      TUTTI_RETURN_IF_ERROR(builder_.take_status());
    }
    graph_.remove_dead();
    return changed;
  }

 private:
  // Nodes behind which nothing but work on rows is left.
  void find_tail() {
    std::set<const Node*> found;
    for (auto it = graph_.nodes().rbegin(); it != graph_.nodes().rend(); ++it) {
      Node& node = **it;
      const bool is_last =
          std::all_of(node.outputs().begin(), node.outputs().end(), [&](const Value* output) {
            return std::all_of(output->users().begin(), output->users().end(),
                               [&](const Node* user) { return found.contains(user); });
          });
      if (!is_last || !works_on_rows(node)) continue;
      found.insert(&node);
      tail_.push_back(&node);
    }
    std::reverse(tail_.begin(), tail_.end());
  }

  bool sink_past(Node& node) {
    if (node.outputs().size() != 1) return false;
    std::optional<OnGrid> from;
    for (const Value* input : node.inputs()) {
      if (!from && input != nullptr && input->rank() == node.output()->rank())
        from = on_grid(input);
    }
    if (!from) return false;
    Value* rows = nullptr;
    if (node.op().is_pointwise) {
      rows = pointwise_on_rows(node, from->grid);
    } else if (on_grid(node.input(0)).has_value()) {
      rows = is_product(node) ? product_of_rows(node, *from) : row_work_on_rows(node, *from);
    }
    if (rows == nullptr) return false;
    put_back(node.output(), rows, from->grid);
    return true;
  }

  Value* pointwise_on_rows(const Node& node, const Grid& grid) {
    std::vector<Value*> inputs;
    for (Value* input : node.inputs()) {
      inputs.push_back(input == nullptr ? nullptr : rows_of(input, grid));
      if (input != nullptr && inputs.back() == nullptr) return nullptr;
    }
    return builder_.op(node.type(), std::move(inputs), node.attributes());
  }

  // Norms over what stands behind the grid, and products with a matrix.
  Value* row_work_on_rows(const Node& node, const OnGrid& from) {
    if (from.grid.perm != identity(from.grid.perm.size())) return nullptr;
    AttributeMap attributes = node.attributes();
    const auto more = static_cast<std::int64_t>(from.grid.count()) - 1;
    if (node.type() == "LayerNormalization" || node.type() == "RMSNormalization") {
      const std::int64_t axis = node.attr_int("axis");
      if (axis < static_cast<std::int64_t>(from.grid.first + from.grid.count())) return nullptr;
      attributes["axis"] = axis - more;
    } else if (node.type() != "MatMul") {
      return nullptr;
    }
    std::vector<Value*> inputs = node.inputs();
    inputs[0] = from.rows;
    return builder_.op(node.type(), std::move(inputs), std::move(attributes));
  }

  // Only with channels behind the grid until they are moved in front of it.
  Value* product_of_rows(const Node& node, const OnGrid& from) {
    const std::size_t rank = from.grid.perm.size();
    Permutation channels_first = identity(rank);
    channels_first.insert(channels_first.begin() + 1, static_cast<std::int64_t>(rank) - 1);
    channels_first.pop_back();
    if (from.grid.perm != channels_first) return nullptr;
    const Shape& kernel = node.input(1)->shape();
    Value* matrix = builder_.transpose(builder_.reshape(node.input(1), {kernel[0], kernel[1]}),
                                       Permutation{1, 0});
    Value* y = builder_.op("MatMul", {from.rows, matrix});
    const Value* bias = node.inputs().size() > 2 ? node.input(2) : nullptr;
    return bias == nullptr ? y : builder_.op("Add", {y, node.input(2)});
  }

  // `value`, which has the grid's dimensions or is broadcast along them, without the grid; null:
  // it is broadcast along some of them.
  Value* rows_of(Value* value, const Grid& grid) {
    if (value->rank() == 0) return value;
    if (const auto same = on_grid(value); same && same->grid == grid) return same->rows;
    auto& [made_for, rows] = rows_[value];
    if (rows == nullptr || !(made_for == grid)) {
      made_for = grid;
      rows = made_rows(value, grid);
    }
    return rows;
  }

  Value* made_rows(Value* value, const Grid& grid) {
    Shape full(grid.perm.size() - value->rank(), Dim(1));
    full.insert(full.end(), value->shape().begin(), value->shape().end());
    const Permutation inverse = inverse_permutation(grid.perm);
    Shape rows = permuted(full, inverse);
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(grid.first);
    const auto end = begin + static_cast<std::ptrdiff_t>(grid.count());
    const bool is_whole = std::equal(begin, end, grid.sizes.begin());
    if (!is_whole && !std::all_of(begin, end, [](const Dim& size) { return size.is(1); })) {
      return nullptr;
    }
    Dim all = product(Shape(begin, end));
    rows.erase(begin + 1, end);
    rows[grid.first] = std::move(all);
    return builder_.reshape(builder_.transpose(builder_.reshape(value, std::move(full)), inverse),
                            std::move(rows));
  }

  void put_back(Value* old, Value* rows, const Grid& grid) {
    Shape shape = rows->shape();
    const auto at = shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(grid.first));
    shape.insert(at, grid.sizes.begin(), grid.sizes.end());
    Value* back = builder_.transpose(builder_.reshape(rows, std::move(shape)), grid.perm);
    if (back == nullptr) return;
    if (is_graph_output(graph_, old)) return replace_value(graph_, old, back);
    // The rows outlive what was on the grid, and take its name.
    const std::string name = old->name();
    graph_.replace_uses(old, back);
    graph_.rename(old, "replaced");
    graph_.rename(rows, name);
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<Node*> tail_;                               // in order
  std::map<const Value*, std::pair<Grid, Value*>> rows_;  // that were made
};

}  // namespace

Status sink_grids(Graph& graph, const CompileOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const bool changed, GridSinker(graph, options).run());
  return changed ? simplify(graph, options) : Status();
}

}  // namespace tutti
