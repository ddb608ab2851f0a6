// From a sharding along one mesh axis to the SPMD graph: local shapes, and an exchange on every
// edge whose ends differ. The graph may be one that other axes have been through: "whole" means as
// before this axis.
#pragma once

#include "compiler/compile.h"
#include "compiler/sharding.h"

namespace tutti {

struct Partitioned {
  std::unique_ptr<Graph> graph;
  LayoutTable layouts;  // of every value of `graph`, along this axis alone
  // Of what each is a piece of, or of a segment of which.
  std::map<std::string, std::string, std::less<>> whole_names;
  // The node of the whole graph that each node (but exchanges and slices) does a piece of.
  std::map<const Node*, const Node*> origins;
  // Nodes that take values in segments apart and put them together, as they would be in the whole
  // graph: more of those that nodes do pieces of.
  std::unique_ptr<Graph> helpers;
};

// Inputs, constants and outputs are whole along the axis. A conversion is made just before its
// first user, and once for each value and layout.
Result<Partitioned> partition(const Graph& graph, const Sharding& sharding,
                              const CompileOptions& options);

// Merges independent AllToAlls on the same axis, and AllGathers of equal splits, that are ready
// together into one packed transfer each. What depends on `invariant` inputs alone is kept apart
// from the rest, so that it can be hoisted.
Status merge_exchanges(Partitioned& model, const CompileOptions& options,
                       const std::vector<std::string>& invariant = {});

// Checks a partitioned graph against the operators' rules and nothing of the propagation: local
// types, what each exchange does to a layout, one factor assignment a node, whole outputs. The
// error names the node.
Status verify_layouts(const Partitioned& model, const Mesh& mesh);

}  // namespace tutti
