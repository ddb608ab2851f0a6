#include "compiler/conversion.h"

#include <algorithm>

#include "compiler/cost.h"

namespace tutti {
namespace {

bool is_even(const Split& split, const Mesh& mesh) {
  return split.replicas == 1 && exact_div(split.units, Dim(mesh.size(split.axis))).has_value();
}

bool is_partial(const Layout& layout, int axis) {
  return std::find(layout.partial_axes.begin(), layout.partial_axes.end(), axis) !=
         layout.partial_axes.end();
}

// A step of this kind along `axis` that is possible from `now`, or nothing.
std::optional<ConversionStep> step_along(const Layout& now, const Layout& to, int axis,
                                         StepKind kind, const Mesh& mesh) {
  const Split* from_split = now.on_axis(axis);
  const Split* to_split = to.on_axis(axis);
  const bool target_is_free = to_split != nullptr && (now.on_dim(to_split->dim) == nullptr ||
                                                      now.on_dim(to_split->dim)->axis == axis);
  ConversionStep step;
  step.kind = kind;
  step.axis = axis;
  if (from_split != nullptr) step.from = *from_split;
  if (to_split != nullptr) step.to = *to_split;
  switch (kind) {
    case StepKind::kReduceScatter:
      if (is_partial(now, axis) && target_is_free && to_split->replicas == 1) return step;
      break;
    case StepKind::kAllReduce:
      if (is_partial(now, axis) && (to_split == nullptr || to_split->replicas != 1)) return step;
      break;
    case StepKind::kSlice:
      if (!is_partial(now, axis) && from_split == nullptr && target_is_free) return step;
      break;
    case StepKind::kAllToAll:
      if (from_split != nullptr && target_is_free && from_split->dim != to_split->dim) return step;
      break;
    case StepKind::kGather: {
      if (from_split == nullptr) break;
      const bool stays = to_split != nullptr && same_pieces(*from_split, *to_split, mesh);
      const bool can_go_on = to_split != nullptr && from_split->dim != to_split->dim;
      if (!stays && !can_go_on) return step;
      break;
    }
  }
  return std::nullopt;
}

std::optional<ConversionStep> next_step(const Layout& now, const Layout& to, const Mesh& mesh) {
  const int axes = static_cast<int>(mesh.axes().size());
  for (const StepKind kind : {StepKind::kReduceScatter, StepKind::kAllReduce, StepKind::kSlice,
                              StepKind::kAllToAll, StepKind::kGather}) {
    for (int axis = 0; axis < axes; ++axis) {
      if (auto step = step_along(now, to, axis, kind, mesh)) return step;
    }
  }
  // Two axes want each other's dimension, or a partial sum waits for one: gather the first split
  // that is out of place.
  for (const Split& split : now.splits) {
    const Split* wanted = to.on_axis(split.axis);
    if (wanted != nullptr && same_pieces(split, *wanted, mesh)) continue;
    return ConversionStep{StepKind::kGather, split.axis, split, {}};
  }
  return std::nullopt;
}

Dim without(const Shape& shape, int dim) {
  Dim out = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int>(d) != dim) out = out * shape[d];
  }
  return out;
}

}  // namespace

bool same_pieces(const Split& a, const Split& b, const Mesh& mesh) {
  if (a.dim != b.dim || a.axis != b.axis) return false;
  if (a.units == b.units && a.replicas == b.replicas) return true;
  return is_even(a, mesh) && is_even(b, mesh);
}

bool same_pieces(const Layout& a, const Layout& b, const Mesh& mesh) {
  if (a.partial_axes != b.partial_axes || a.splits.size() != b.splits.size()) return false;
  for (std::size_t i = 0; i < a.splits.size(); ++i) {
    if (!same_pieces(a.splits[i], b.splits[i], mesh)) return false;
  }
  return true;
}

std::vector<ConversionStep> conversion_steps(const Layout& from, const Layout& to,
                                             const Mesh& mesh) {
  std::vector<ConversionStep> steps;
  Layout now = from;
  while (!same_pieces(now, to, mesh)) {
    const auto step = next_step(now, to, mesh);
    if (!step) break;
    steps.push_back(*step);
    now = after_step(std::move(now), *step);
  }
  return steps;
}

Layout after_step(Layout layout, const ConversionStep& step) {
  layout.remove_axis(step.axis);
  const bool is_split = step.kind == StepKind::kSlice || step.kind == StepKind::kAllToAll ||
                        step.kind == StepKind::kReduceScatter;
  if (is_split) layout.set(step.to);
  return layout;
}

Dim sent_elements(const ConversionStep& step, const Shape& global, const Layout& before,
                  const Mesh& mesh) {
  const Shape local = local_shape(global, before, mesh);
  const Shape after = local_shape(global, after_step(before, step), mesh);
  const Dim others(mesh.size(step.axis) - 1);
  switch (step.kind) {
    case StepKind::kSlice: return 0;
    case StepKind::kGather: return floor_div(product(local) * others, Dim(step.from.replicas));
    case StepKind::kAllToAll: {
      // To each other rank, its piece of the target dimension.
      const Dim sent = units_held_elsewhere(step.to.units, step.to.replicas, mesh.size(step.axis),
                                            mesh.rank_symbol(step.axis)) *
                       floor_div(local[static_cast<std::size_t>(step.to.dim)], step.to.units);
      return floor_div(without(local, step.to.dim) * sent, Dim(step.from.replicas));
    }
    // Reduce-scatter and all-gather of even pieces, the least that is possible.
    case StepKind::kAllReduce:
      return floor_div(Dim(2) * product(local) * others, Dim(mesh.size(step.axis)));
    case StepKind::kReduceScatter: return product(local) - product(after);
  }
  return 0;
}

}  // namespace tutti
