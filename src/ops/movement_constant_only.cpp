// Operators whose result shape depends on elements: NonZero, Compress, Unique. They are lowered for
// constant operands only, to constants and gathers.
#include <algorithm>
#include <map>
#include <numeric>

#include "ops/movement.h"

namespace tutti {
namespace {

Result<const Tensor*> constant_input(const LoweringContext& c, std::size_t i) {
  const Value* value = c.input(i);
  if (value == nullptr) return invalid_argument("input ", i, " is missing");
  if (!value->is_constant()) {
    return unimplemented("the shape of the result depends on the elements of input ", i, " ('",
                         value->name(),
                         "'); supported for constants only, and `--bind "
                         "NAME=FILE.npy` makes a graph input one");
  }
  return &value->constant();
}

Tensor int_tensor(Dims dims, const std::vector<std::int64_t>& elements) {
  return Tensor::ints(elements).reshaped(std::move(dims));
}

Status lower_non_zero(LoweringContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const Tensor* x, constant_input(c, 0));
  const std::vector<double> elements = x->to_doubles();
  const Dims strides = contiguous_strides(x->dims());
  std::vector<std::int64_t> hits;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] != 0) hits.push_back(static_cast<std::int64_t>(i));
  }
  std::vector<std::int64_t> out;
  for (std::size_t d = 0; d < x->rank(); ++d) {
    for (const std::int64_t hit : hits) out.push_back(hit / strides[d] % x->dims()[d]);
  }
  return finish(
      c, c.b.constant(int_tensor(
             {static_cast<std::int64_t>(x->rank()), static_cast<std::int64_t>(hits.size())}, out)));
}

Status lower_compress(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  TUTTI_ASSIGN_OR_RETURN(const Axes condition, c.known_ints(1));
  Value* x = c.input(0);
  std::int64_t axis = 0;
  if (c.has("axis")) {
    TUTTI_ASSIGN_OR_RETURN(axis, axis_attribute(c, "axis", 0, x->rank()));
  } else {
    x = c.b.reshape(x, {product(x->shape())});
  }
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) kept.push_back(static_cast<std::int64_t>(i));
  }
  Value* indices = c.b.constant(Tensor::ints(kept));
  return finish(c, c.b.op("Gather", {x, indices}, {{"axis", axis}}));
}

// The slices along `axis` as rows of numbers, in order.
std::vector<std::vector<double>> rows_along(const Tensor& x, std::size_t axis) {
  const std::vector<double> elements = x.to_doubles();
  const std::int64_t count = x.dims()[axis];
  const std::int64_t inner = contiguous_strides(x.dims())[axis];
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    rows[i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(count)].push_back(
        elements[i]);
  }
  return rows;
}

Status lower_unique(LoweringContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const Tensor* given, constant_input(c, 0));
  Tensor x = *given;
  std::int64_t axis = 0;
  if (c.has("axis")) {
    TUTTI_ASSIGN_OR_RETURN(axis, axis_attribute(c, "axis", 0, x.rank()));
  } else {
    x = x.reshaped({x.element_count()});
  }
  const auto rows = rows_along(x, static_cast<std::size_t>(axis));
  struct Entry {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t position = 0;
  };
  std::map<std::vector<double>, Entry> entries;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [it, inserted] = entries.try_emplace(rows[i]);
    if (inserted) it->second.first = static_cast<std::int64_t>(i);
    ++it->second.count;
  }
  std::vector<Entry*> order;
  for (auto& [row, entry] : entries) order.push_back(&entry);
  if (c.attr_int("sorted", 1) == 0) {
    std::sort(order.begin(), order.end(),
              [](const Entry* a, const Entry* b) { return a->first < b->first; });
  }
  std::vector<std::int64_t> firsts;
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i]->position = static_cast<std::int64_t>(i);
    firsts.push_back(order[i]->first);
    counts.push_back(order[i]->count);
  }
  std::vector<std::int64_t> inverse;
  for (const auto& row : rows) inverse.push_back(entries.at(row).position);
  Value* indices = c.b.constant(Tensor::ints(firsts));
  c.outputs[0] = c.b.op("Gather", {c.b.constant(x), indices}, {{"axis", axis}});
  if (c.outputs.size() > 1) c.outputs[1] = indices;
  if (c.outputs.size() > 2) c.outputs[2] = c.b.constant(Tensor::ints(inverse));
  if (c.outputs.size() > 3) c.outputs[3] = c.b.constant(Tensor::ints(counts));
  return c.b.status();
}

}  // namespace

void register_constant_only_ops(LoweringRegistry* lowerings) {
  add_lowering(lowerings, "NonZero", lower_non_zero);
  add_lowering(lowerings, "Compress", lower_compress, {"axis"});
  add_lowering(lowerings, "Unique", lower_unique, {"axis", "sorted"});
}

}  // namespace tutti
