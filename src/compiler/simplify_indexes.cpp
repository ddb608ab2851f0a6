// Known indexes become slices and concatenations: layouts, hoisting and CSE see through those.
#include <algorithm>

#include "compiler/index_runs.h"
#include "compiler/match.h"
#include "compiler/simplify_rules.h"

namespace tutti {
namespace {

// Past that many pieces, one gather is cheaper than what replaces it.
constexpr std::size_t kMaxRuns = 8;

Dim size_of(const Value* x, std::size_t axis) { return x->shape()[axis]; }

Value* cut(GraphBuilder& b, Value* x, std::size_t axis, const Dim& start, const Dim& end) {
  if (x == nullptr || (start.is(0) && size_of(x, axis) == end)) return x;
  return b.slice(x, {static_cast<std::int64_t>(axis)}, {start}, {end});
}

Value* join(GraphBuilder& b, std::vector<Value*> pieces, std::size_t axis) {
  if (pieces.size() == 1) return pieces[0];
  return b.op("Concat", std::move(pieces), {{"axis", static_cast<std::int64_t>(axis)}});
}

// --- Gathers ----------------------------------------------------------------------------------

using Runs = std::vector<IndexRun>;

std::optional<Runs> few_runs(const std::optional<Rows>& rows, const Dim& size) {
  if (!rows || rows->empty()) return std::nullopt;
  const auto normalized = normalized_rows(*rows, size);
  if (!normalized) return std::nullopt;
  Runs runs = runs_of(*normalized);
  if (runs.size() > kMaxRuns) return std::nullopt;
  return runs;
}

// Of flat indexes: constant ones, or ones that count.
std::optional<Runs> flat_runs(const Value& indices, const Dim& size) {
  if (auto runs = few_runs(constant_rows(indices), size)) return runs;
  const auto run = counted_run(indices);
  return run ? std::optional(Runs{*run}) : std::nullopt;
}

// Of indexes that differ along one axis only.
std::optional<Runs> axis_runs(const Value& indices, std::size_t axis, const Dim& size) {
  if (const Value* row = row_before_expand(indices, axis)) return flat_runs(*row, size);
  return few_runs(rows_along(indices, axis), size);
}

// Of coordinates [.., depth], for each of the first `depth` axes.
std::optional<std::vector<Runs>> runs_by_axis(const Value& coordinates, const Shape& shape) {
  std::vector<Runs> runs;
  if (coordinates.shape().back().is(1)) {
    if (auto flat = flat_runs(coordinates, shape[0])) return std::vector<Runs>{*std::move(flat)};
  }
  const auto rows = rows_by_axis(coordinates);
  if (!rows) return std::nullopt;
  for (std::size_t axis = 0; axis < rows->size(); ++axis) {
    auto found = few_runs((*rows)[axis], shape[axis]);
    if (!found) return std::nullopt;
    runs.push_back(*std::move(found));
  }
  return runs;
}

Value* take_runs(GraphBuilder& b, Value* x, std::size_t axis, const Runs& runs) {
  std::vector<Value*> pieces;
  pieces.reserve(runs.size());
  for (const IndexRun& run : runs) {
    pieces.push_back(cut(b, x, axis, run.first, run.first + run.count));
  }
  return join(b, std::move(pieces), axis);
}

Value* slices_of_gather(GraphBuilder& b, const Node& node) {
  Value* data = node.input(0);
  const auto axis = static_cast<std::size_t>(node.attr_int("axis"));
  const auto runs = flat_runs(*node.input(1), size_of(data, axis));
  if (!runs) return nullptr;
  Value* taken = take_runs(b, data, axis, *runs);
  return node.input(1)->rank() == 1 ? taken : b.reshape(taken, node.output()->shape());
}

Value* slices_of_gather_elements(GraphBuilder& b, const Node& node) {
  Value* x = node.input(0);
  const auto axis = static_cast<std::size_t>(node.attr_int("axis"));
  const auto runs = axis_runs(*node.input(1), axis, size_of(x, axis));
  if (!runs) return nullptr;
  for (std::size_t d = 0; d < x->rank(); ++d) {
    if (d != axis) x = cut(b, x, d, 0, node.output()->shape()[d]);
  }
  return take_runs(b, x, axis, *runs);
}

Value* slices_of_gather_nd(GraphBuilder& b, const Node& node) {
  Value* x = node.input(0);
  if (node.attr_int("batch_dims") != 0) return nullptr;
  const auto runs = runs_by_axis(*node.input(1), x->shape());
  if (!runs) return nullptr;
  for (std::size_t axis = 0; axis < runs->size(); ++axis) x = take_runs(b, x, axis, (*runs)[axis]);
  if (x == nullptr || x->shape() == node.output()->shape()) return x;
  return b.reshape(x, node.output()->shape());
}

// --- Scatters ---------------------------------------------------------------------------------

// Rows [from, from + count) of the updates go to rows [to, to + count) of the data.
struct Stretch {
  Dim to = 0;
  Dim from = 0;
  Dim count = 0;
};
using Stretches = std::vector<Stretch>;  // by `to`, apart

bool is_whole(const Stretches& stretches, const Dim& size) {
  return stretches.size() == 1 && stretches[0].to.is(0) && stretches[0].count == size;
}

// nullopt: no runs, rows that are written twice, or that may lie outside the data.
std::optional<Stretches> stretches_of(std::optional<Runs> runs, const Dim& size) {
  if (!runs) return std::nullopt;
  const bool are_constant = std::all_of(runs->begin(), runs->end(), [](const IndexRun& run) {
    return run.first.is_constant() && run.count.is_constant();
  });
  if (runs->size() > 1 && !are_constant) return std::nullopt;
  if (are_constant) {
    std::sort(runs->begin(), runs->end(), [](const IndexRun& a, const IndexRun& b) {
      return a.first.constant() < b.first.constant();
    });
  }
  Stretches stretches;
  Dim end = 0;
  for (const IndexRun& run : *runs) {
    if (!is_never_negative(run.first - end)) return std::nullopt;
    end = run.first + run.count;
    stretches.push_back({run.first, run.place, run.count});
  }
  if (!is_never_negative(size - end)) return std::nullopt;
  return stretches;
}

// The first `count` rows; nullopt where the data may have fewer.
std::optional<Stretches> first_rows(const Dim& count, const Dim& size) {
  if (!is_never_negative(size - count)) return std::nullopt;
  return Stretches{{0, 0, count}};
}

class Scatter {
 public:
  Scatter(GraphBuilder& b, std::string_view reduction, std::vector<Stretches> stretches)
      : b_(b), combine_(operator_of(reduction)), stretches_(std::move(stretches)) {}

  // `data` with its stretches of all axes from `axis` on replaced by, or combined with, `updates`.
  Value* put(Value* data, Value* updates, std::size_t axis = 0) {
    if (updates == nullptr) return nullptr;
    if (axis == stretches_.size()) {
      return combine_.empty() ? updates : b_.op(combine_, {data, updates});
    }
    const bool needs_middle = reads_data(data, axis + 1);
    const Dim size = size_of(data, axis);
    std::vector<Value*> pieces;
    Dim at = 0;
    for (const Stretch& stretch : stretches_[axis]) {
      const Dim end = stretch.to + stretch.count;
      if (stretch.to != at) pieces.push_back(cut(b_, data, axis, at, stretch.to));
      Value* old = needs_middle ? cut(b_, data, axis, stretch.to, end) : data;
      Value* rows = cut(b_, updates, axis, stretch.from, stretch.from + stretch.count);
      pieces.push_back(put(old, rows, axis + 1));
      at = end;
    }
    if (at != size) pieces.push_back(cut(b_, data, axis, at, size));
    return join(b_, std::move(pieces), axis);
  }

 private:
  static std::string operator_of(std::string_view reduction) {
    if (reduction == "add") return "Add";
    if (reduction == "mul") return "Mul";
    if (reduction == "max") return "Max";
    if (reduction == "min") return "Min";
    return "";
  }

  bool reads_data(const Value* data, std::size_t axis) const {
    if (!combine_.empty()) return true;
    for (; axis < stretches_.size(); ++axis) {
      if (!is_whole(stretches_[axis], size_of(data, axis))) return true;
    }
    return false;
  }

  GraphBuilder& b_;
  const std::string combine_;
  const std::vector<Stretches> stretches_;
};

Value* slices_of_scatter_nd(GraphBuilder& b, const Node& node) {
  Value* data = node.input(0);
  Value* updates = node.input(2);
  const auto runs = runs_by_axis(*node.input(1), data->shape());
  if (!runs) return nullptr;
  std::vector<Stretches> stretches;
  Shape shape = data->shape();
  for (std::size_t axis = 0; axis < runs->size(); ++axis) {
    auto found = stretches_of((*runs)[axis], size_of(data, axis));
    if (!found) return nullptr;
    shape[axis] = 0;
    for (const Stretch& stretch : *found) shape[axis] = shape[axis] + stretch.count;
    stretches.push_back(*std::move(found));
  }
  // Sizes that are equal only once they are bound stay with the kernel, which checks them.
  if (product(updates->shape()) != product(shape)) return nullptr;
  if (updates->shape() != shape) updates = b.reshape(updates, shape);
  Scatter scatter(b, node.attr_string("reduction", "none"), std::move(stretches));
  return scatter.put(data, updates);
}

Value* slices_of_scatter_elements(GraphBuilder& b, const Node& node) {
  Value* data = node.input(0);
  const Value* indices = node.input(1);
  Value* updates = node.input(2);
  if (updates->shape() != indices->shape()) return nullptr;
  const auto axis = static_cast<std::size_t>(node.attr_int("axis"));
  std::vector<Stretches> stretches;
  for (std::size_t d = 0; d < data->rank(); ++d) {
    auto found = d == axis
                     ? stretches_of(axis_runs(*indices, axis, size_of(data, d)), size_of(data, d))
                     : first_rows(size_of(indices, d), size_of(data, d));
    if (!found) return nullptr;
    stretches.push_back(*std::move(found));
  }
  Scatter scatter(b, node.attr_string("reduction", "none"), std::move(stretches));
  return scatter.put(data, updates);
}

// --- Where ------------------------------------------------------------------------------------

// Only between two tensors of the whole shape: a mask that fills with a number is cheaper as it is.
Value* pieces_of_where(GraphBuilder& b, const Node& node) {
  const Shape& shape = node.output()->shape();
  const auto mask = axis_mask(*node.input(0));
  if (!mask) return nullptr;
  if (mask->rows.size() == 1) {
    Value* chosen = node.input(mask->rows[0] ? 1 : 2);
    return chosen->shape() == shape ? chosen : b.expand(chosen, shape);
  }
  if (node.input(1)->shape() != shape || node.input(2)->shape() != shape) return nullptr;
  const std::size_t axis = mask->axis + shape.size() - node.input(0)->rank();
  const auto size = static_cast<std::int64_t>(mask->rows.size());
  std::vector<std::int64_t> cuts;
  for (std::int64_t i = 0; i <= size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i == 0 || i == size || mask->rows[at] != mask->rows[at - 1]) cuts.push_back(i);
  }
  if (!shape[axis].is(size) || cuts.size() > kMaxRuns + 1) return nullptr;
  std::vector<Value*> pieces;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Value* chosen = node.input(mask->rows[static_cast<std::size_t>(cuts[i])] ? 1 : 2);
    pieces.push_back(cut(b, chosen, axis, cuts[i], cuts[i + 1]));
  }
  return join(b, std::move(pieces), axis);
}

}  // namespace

Value* slices_for_indexes(GraphBuilder& b, const Node& node) {
  const std::string& type = node.type();
  if (type == "Gather") return slices_of_gather(b, node);
  if (type == "GatherElements") return slices_of_gather_elements(b, node);
  if (type == "GatherND") return slices_of_gather_nd(b, node);
  if (type == "ScatterND") return slices_of_scatter_nd(b, node);
  if (type == "ScatterElements") return slices_of_scatter_elements(b, node);
  if (type == "Where") return pieces_of_where(b, node);
  return nullptr;
}

}  // namespace tutti
