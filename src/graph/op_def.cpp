#include "graph/op_def.h"

#include <cassert>

namespace tutti {
namespace {

std::string_view kind_name(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInt: return "an integer";
    case AttributeKind::kFloat: return "a number";
    case AttributeKind::kString: return "a string";
    case AttributeKind::kInts: return "integers";
    case AttributeKind::kFloats: return "numbers";
    case AttributeKind::kStrings: return "strings";
    case AttributeKind::kDims: return "sizes";
    case AttributeKind::kTensor: return "a tensor";
    case AttributeKind::kGraph: return "a graph";
  }
  return "";
}

bool has_kind(const Attribute& attribute, AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInt: return std::holds_alternative<std::int64_t>(attribute);
    case AttributeKind::kFloat: return std::holds_alternative<double>(attribute);
    case AttributeKind::kString: return std::holds_alternative<std::string>(attribute);
    case AttributeKind::kInts: return std::holds_alternative<std::vector<std::int64_t>>(attribute);
    case AttributeKind::kFloats: return std::holds_alternative<std::vector<double>>(attribute);
    case AttributeKind::kStrings:
      return std::holds_alternative<std::vector<std::string>>(attribute);
    case AttributeKind::kDims: return std::holds_alternative<Shape>(attribute);
    case AttributeKind::kTensor: return std::holds_alternative<Tensor>(attribute);
    case AttributeKind::kGraph:
      return std::holds_alternative<std::shared_ptr<const Graph>>(attribute);
  }
  return false;
}

}  // namespace

void OpRegistry::add(OpDef def) {
  const std::string type = def.type;
  [[maybe_unused]] const bool inserted =
      defs_.emplace(type, std::make_unique<OpDef>(std::move(def))).second;
  assert(inserted);
}

const OpDef* OpRegistry::find(std::string_view type) const {
  const auto it = defs_.find(type);
  return it == defs_.end() ? nullptr : it->second.get();
}

std::vector<const OpDef*> OpRegistry::all() const {
  std::vector<const OpDef*> out;
  for (const auto& [type, def] : defs_) out.push_back(def.get());
  return out;
}

Status check_attributes(const OpDef& op, const AttributeMap& attributes) {
  for (const AttributeSpec& spec : op.attributes) {
    const auto it = attributes.find(spec.name);
    if (it == attributes.end()) {
      if (spec.required) return invalid_argument("attribute '", spec.name, "' is missing");
    } else if (!has_kind(it->second, spec.kind)) {
      return invalid_argument("attribute '", spec.name, "': expected ", kind_name(spec.kind));
    }
  }
  for (const auto& [name, value] : attributes) {
    bool known = false;
    for (const AttributeSpec& spec : op.attributes) known |= spec.name == name;
    if (!known) return invalid_argument("attribute '", name, "' is unknown to ", op.type);
  }
  return Status();
}

}  // namespace tutti
