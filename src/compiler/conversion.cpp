#include "compiler/conversion.h"

#include "compiler/cost.h"
#include "compiler/sharding.h"

namespace tutti {
namespace {

bool is_even(const Split& split, const Mesh& mesh) {
  return split.replicas == 1 && split.segments.empty() &&
         exact_div(split.units, Dim(mesh.size(split.axis))).has_value();
}

Dim without(const Shape& shape, int dim) {
  Dim out = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int>(d) != dim) out = out * shape[d];
  }
  return out;
}

Dim held_elsewhere(const Split& split, const Mesh& mesh) {
  if (!split.segments.empty()) return split.units - piece_units(split, mesh);
  return units_held_elsewhere(split.units, split.replicas, mesh.size(split.axis),
                              mesh.rank_symbol(split.axis));
}

}  // namespace

bool same_pieces(const Split& a, const Split& b, const Mesh& mesh) {
  if (a.dim != b.dim || a.axis != b.axis || a.window != b.window) return false;
  if (a.units == b.units && a.replicas == b.replicas && a.segments == b.segments &&
      a.grains == b.grains) {
    return true;
  }
  return is_even(a, mesh) && is_even(b, mesh);
}

bool same_pieces(const Layout& a, const Layout& b, const Mesh& mesh) {
  if (a.partial_axes != b.partial_axes || a.splits.size() != b.splits.size()) return false;
  for (std::size_t i = 0; i < a.splits.size(); ++i) {
    if (!same_pieces(a.splits[i], b.splits[i], mesh)) return false;
  }
  return true;
}

SplitWindow window_read(const Split& split, const Dim& size) {
  return split.window.value_or(SplitWindow{size, size, {}});
}

bool has_windows(const Layout& layout) {
  for (const Split& split : layout.splits) {
    if (split.window) return true;
  }
  return false;
}

std::vector<ConversionStep> conversion_steps(const Layout& from, const Layout& to,
                                             const Mesh& mesh) {
  std::vector<ConversionStep> steps;
  if (same_pieces(from, to, mesh)) return steps;
  const Split* have = from.splits.empty() ? nullptr : &from.splits[0];
  const Split* want = to.splits.empty() ? nullptr : &to.splits[0];
  const bool moves_along = have != nullptr && want != nullptr && have->dim == want->dim &&
                           have->replicas == 1 && have->segments.empty() && want->segments.empty();
  if (want != nullptr && want->window && !moves_along && !from.is_replicated()) {
    // By way of pieces that do not overlap.
    Layout plain;
    plain.set(without_window(*want));
    steps = conversion_steps(from, plain, mesh);
    steps.push_back({StepKind::kHalo, want->axis, plain.splits[0], *want});
    return steps;
  }
  const auto add = [&](StepKind kind, int axis) {
    ConversionStep& step = steps.emplace_back();
    step.kind = kind;
    step.axis = axis;
    const bool takes_pieces =
        kind == StepKind::kGather || kind == StepKind::kAllToAll || kind == StepKind::kHalo;
    const bool gives_pieces = kind != StepKind::kGather && kind != StepKind::kAllReduce;
    if (takes_pieces) step.from = *have;
    if (gives_pieces) step.to = *want;
  };
  if (!from.partial_axes.empty()) {
    const int axis = from.partial_axes[0];
    const bool is_scattered = want != nullptr && want->replicas == 1 && want->segments.empty();
    add(is_scattered ? StepKind::kReduceScatter : StepKind::kAllReduce, axis);
    if (want != nullptr && !is_scattered) add(StepKind::kSlice, axis);
    return steps;
  }
  if (moves_along && want->replicas == 1) {
    add(StepKind::kHalo, have->axis);
    return steps;
  }
  const bool is_turned = have != nullptr && want != nullptr && have->dim != want->dim &&
                         (have->segments.empty() || want->segments.empty());
  if (is_turned) {
    add(StepKind::kAllToAll, have->axis);
    return steps;
  }
  if (have != nullptr) add(StepKind::kGather, have->axis);
  if (want != nullptr) add(StepKind::kSlice, want->axis);
  return steps;
}

Layout after_step(Layout layout, const ConversionStep& step) {
  layout.remove_axis(step.axis);
  const bool is_split = step.kind == StepKind::kSlice || step.kind == StepKind::kAllToAll ||
                        step.kind == StepKind::kReduceScatter || step.kind == StepKind::kHalo;
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
      const Dim sent = held_elsewhere(step.to, mesh) *
                       floor_div(local[static_cast<std::size_t>(step.to.dim)], step.to.units);
      return floor_div(without(local, step.to.dim) * sent, Dim(step.from.replicas));
    }
    case StepKind::kHalo: {
      const auto dim = static_cast<std::size_t>(step.to.dim);
      return without(local, step.to.dim) *
             halo_sent_rows(global[dim], step.from.units, window_read(step.to, global[dim]),
                            step.to.units, mesh.size(step.axis), mesh.rank_symbol(step.axis));
    }
    // Reduce-scatter and all-gather of even pieces, the least that is possible.
    case StepKind::kAllReduce:
      return floor_div(Dim(2) * product(local) * others, Dim(mesh.size(step.axis)));
    case StepKind::kReduceScatter: return product(local) - product(after);
  }
  return 0;
}

}  // namespace tutti
