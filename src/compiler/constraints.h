// What annotations of the model demand of nodes along one mesh axis.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/sharding.h"

namespace tutti {

// Names of values, by name in a graph that axes have been through: what they are called in the
// whole graph. One that is missing is called the same.
using NameMap = std::map<std::string, std::string, std::less<>>;

// Of one operand of a node. `dim` < 0: whole along this axis.
struct OperandDemand {
  bool is_output = false;
  std::size_t index = 0;
  int dim = -1;
  std::int64_t shards = 0;
  std::optional<Dim> units = {};
  const LayoutConstraint* source = nullptr;
};

class AxisConstraints {
 public:
  // Errors: a dimension that an annotated value does not have, twice, or of another size.
  static Result<AxisConstraints> create(const Graph& graph, const CompileOptions& options, int axis,
                                        const NameMap& names);

  // Null: none.
  const std::vector<OperandDemand>* find(const Node& node) const;

  // The split gives every operand what is demanded of it. Null: the node is not split.
  bool allows(const Node& node, const FactorMap& map, const FactorSplit* split) const;

  // Splits of the node that give some operand what is demanded of it.
  std::vector<FactorSplit> demanded(const Node& node, const FactorMap& map) const;

  // Why no split of the node is allowed: its operands, what is demanded, the rule.
  Status contradiction(const Node& node, const FactorMap& map) const;

 private:
  AxisConstraints(const Mesh& mesh, int axis) : mesh_(&mesh), axis_(axis) {}
  Status add(const Node& node, bool is_output, std::size_t index, const LayoutConstraint& source);
  std::string text(const Node& node, const OperandDemand& demand) const;

  const Mesh* mesh_;
  int axis_;
  std::map<const Node*, std::vector<OperandDemand>> demands_;
};

}  // namespace tutti
