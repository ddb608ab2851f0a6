#include "compiler/distribute.h"

#include <algorithm>
#include <chrono>

#include "compiler/expose_norms.h"
#include "compiler/layout.h"
#include "compiler/partition.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

// `whole`, or the segment of it that has this shape before the axis of `stage`.
ValueLayout segment_of(const ValueLayout& whole, const Shape& shape, const Mesh& mesh) {
  ValueLayout out = whole;
  const Shape local = local_shape(whole.global.shape, whole.layout, mesh);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == local[d]) continue;
    out.global.shape[d] = shape[d];
    std::erase_if(out.layout.splits,
                  [d](const Split& split) { return split.dim == static_cast<int>(d); });
  }
  return out;
}

// The layouts of a stage, which are along one axis and of pieces of what `before` describes, along
// all axes so far. An empty `before`: nothing is split yet.
LayoutTable nested(const Partitioned& stage, const LayoutTable& before, const Mesh& mesh) {
  LayoutTable all;
  for (const auto& [name, value] : stage.layouts) {
    ValueLayout& out = all[name];
    out = value;
    const auto whole = before.find(stage.whole_names.at(name));
    if (whole == before.end()) continue;
    out = segment_of(whole->second, value.global.shape, mesh);
    for (const Split& split : value.layout.splits) out.layout.set(split);
    auto& partial = out.layout.partial_axes;
    partial.insert(partial.end(), value.layout.partial_axes.begin(),
                   value.layout.partial_axes.end());
    std::sort(partial.begin(), partial.end());
  }
  return all;
}

// What the values of a stage are called in the graph that no axis has been through.
NameMap original_names(const Partitioned& stage, const NameMap& before) {
  NameMap names;
  for (const auto& [name, whole] : stage.whole_names) {
    const auto original = before.find(whole);
    names[name] = original == before.end() ? whole : original->second;
  }
  return names;
}

// Runs a step and says how long it took.
template <class F>
auto timed(std::string_view step, const CompileOptions& options, F&& run) {
  const auto start = std::chrono::steady_clock::now();
  auto result = run();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (options.progress) options.progress(step, elapsed.count());
  return result;
}

Status distribute_over(int axis, const CompileOptions& options,
                       const std::vector<std::string>& invariant, Distributed* out) {
  TUTTI_ASSIGN_OR_RETURN(const std::string strategy, strategy_of(options, axis));
  if (strategy == "tensor") TUTTI_RETURN_IF_ERROR(expose_norms(*out->graph, options));
  if (strategy == "ulysses") TUTTI_RETURN_IF_ERROR(join_groups(*out->graph, options, axis));
  TUTTI_ASSIGN_OR_RETURN(const Sharding sharding, timed("propagate layouts", options, [&] {
                           return propagate_layouts(*out->graph, options, axis, out->whole_names,
                                                    &out->attentions);
                         }));
  TUTTI_ASSIGN_OR_RETURN(Partitioned stage, timed("partition", options, [&] {
                           return partition(*out->graph, sharding, options);
                         }));
  TUTTI_RETURN_IF_ERROR(timed("merge exchanges", options,
                              [&] { return merge_exchanges(stage, options, invariant); }));
  TUTTI_RETURN_IF_ERROR(timed("verify layouts", options, [&] {
    const Status status = stage.graph->verify();
    return status.ok() ? verify_layouts(stage, options.mesh) : status;
  }));
  out->layouts = nested(stage, out->layouts, options.mesh);
  out->whole_names = original_names(stage, out->whole_names);
  out->graph = std::move(stage.graph);
  return {};
}

}  // namespace

Result<Distributed> distribute(std::unique_ptr<Graph> whole, const CompileOptions& options,
                               const std::vector<std::string>& invariant) {
  Distributed out;
  out.graph = std::move(whole);
  TUTTI_RETURN_IF_ERROR(
      timed("open space", options, [&] { return open_space(*out.graph, options); }));
  for (const int axis : distribution_order(options)) {
    const std::string& name = options.mesh.axes()[static_cast<std::size_t>(axis)].name;
    TUTTI_RETURN_IF_ERROR(
        distribute_over(axis, options, invariant, &out).with_context(str_cat("axis ", name)));
  }
  TUTTI_RETURN_IF_ERROR(mask_lookups(*out.graph, options));
  return out;
}

}  // namespace tutti
