#include "ops/lowering.h"

#include <algorithm>
#include <numeric>

namespace tutti {
namespace {

// An attribute of the wrong kind fails the lowering through the builder's sticky status.
template <class T>
const T* typed_attribute(const LoweringContext& context, std::string_view name,
                         std::string_view expected) {
  const auto it = context.attributes.find(name);
  if (it == context.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  if (value == nullptr) {
    context.b.fail(invalid_argument("attribute '", name, "' is not ", expected));
  }
  return value;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string rule_key(std::string_view domain, std::string_view op_type) {
  return str_cat(domain == "ai.onnx" ? "" : domain, "::", op_type);
}

}  // namespace

std::int64_t LoweringContext::attr_int(std::string_view name, std::int64_t fallback) const {
  const auto* value = typed_attribute<std::int64_t>(*this, name, "an int");
  return value == nullptr ? fallback : *value;
}

double LoweringContext::attr_float(std::string_view name, double fallback) const {
  const auto* value = typed_attribute<double>(*this, name, "a float");
  return value == nullptr ? fallback : *value;
}

std::string LoweringContext::attr_string(std::string_view name, std::string_view fallback) const {
  const auto* value = typed_attribute<std::string>(*this, name, "a string");
  return value == nullptr ? std::string(fallback) : *value;
}

std::vector<std::int64_t> LoweringContext::attr_ints(std::string_view name) const {
  const auto* value = typed_attribute<std::vector<std::int64_t>>(*this, name, "a list of ints");
  return value == nullptr ? std::vector<std::int64_t>{} : *value;
}

Result<std::vector<Dim>> LoweringContext::known_sizes(std::size_t i) const {
  const Value* value = input(i);
  if (value == nullptr) return invalid_argument("input ", i, " is missing");
  if (value->symbolic().has_value()) return *value->symbolic();
  if (value->is_constant() && (is_integer(value->dtype()) || value->dtype() == DType::kBool)) {
    const std::vector<std::int64_t> elements = value->constant().to_ints();
    return std::vector<Dim>(elements.begin(), elements.end());
  }
  return invalid_argument("input ", i, " ('", value->name(), "', ", value->type(),
                          ") determines shapes, so its content must be known at compile time; "
                          "`--bind NAME=FILE.npy` fixes a graph input");
}

Result<std::vector<std::int64_t>> LoweringContext::known_ints(std::size_t i) const {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Dim> elements, known_sizes(i));
  std::vector<std::int64_t> out;
  out.reserve(elements.size());
  for (const Dim& element : elements) {
    if (!element.is_constant()) {
      return invalid_argument("input ", i, " ('", input(i)->name(), "') holds the symbolic size ",
                              element, "; expected numbers");
    }
    out.push_back(element.constant());
  }
  return out;
}

Result<std::vector<double>> LoweringContext::known_floats(std::size_t i) const {
  const Value* value = input(i);
  if (value == nullptr) return invalid_argument("input ", i, " is missing");
  if (!value->is_constant()) {
    return invalid_argument("input ", i, " ('", value->name(), "', ", value->type(),
                            ") must be known at compile time; `--bind NAME=FILE.npy` fixes a "
                            "graph input");
  }
  return value->constant().to_doubles();
}

Result<double> LoweringContext::known_float(std::size_t i, double fallback) const {
  if (input(i) == nullptr) return fallback;
  TUTTI_ASSIGN_OR_RETURN(const std::vector<double> elements, known_floats(i));
  if (elements.size() != 1) {
    return invalid_argument("input ", i, " ('", input(i)->name(), "') is ", input(i)->type(),
                            "; expected one element");
  }
  return elements[0];
}

void LoweringRegistry::add(Lowering lowering) {
  std::vector<Lowering>& rules = rules_[rule_key(lowering.domain, lowering.op_type)];
  const auto at =
      std::upper_bound(rules.begin(), rules.end(), lowering.since_opset,
                       [](int opset, const Lowering& rule) { return opset < rule.since_opset; });
  rules.insert(at, std::move(lowering));
}

const Lowering* LoweringRegistry::find(std::string_view domain, std::string_view op_type,
                                       int opset) const {
  const auto it = rules_.find(rule_key(domain, op_type));
  if (it == rules_.end()) return nullptr;
  const Lowering* best = nullptr;
  for (const Lowering& rule : it->second) {
    if (rule.since_opset <= opset) best = &rule;
  }
  return best;
}

std::string LoweringRegistry::nearest(std::string_view op_type) const {
  std::string best;
  std::size_t best_distance = op_type.size() / 2 + 1;  // farther names would only mislead
  for (const auto& [key, rules] : rules_) {
    const std::size_t distance = edit_distance(rules.front().op_type, op_type);
    if (distance < best_distance) {
      best_distance = distance;
      best = rules.front().op_type;
    }
  }
  return best;
}

std::vector<const Lowering*> LoweringRegistry::all() const {
  std::vector<const Lowering*> out;
  for (const auto& [key, rules] : rules_) {
    for (const Lowering& rule : rules) out.push_back(&rule);
  }
  return out;
}

}  // namespace tutti
