#include "runtime/shape_binding.h"

#include <algorithm>

namespace tutti {
namespace {

std::string join(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) text += str_cat(i > 0 ? "," : "", dims[i]);
  return text + "]";
}

std::string join(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += str_cat(i > 0 ? "," : "", shape[i]);
  return text + "]";
}

// What `symbol` must be for `expression` to equal `size`, where the expression is linear in it.
std::optional<std::int64_t> solve(const Dim& expression, const std::string& symbol,
                                  std::int64_t size) {
  const auto at = [&](std::int64_t value) { return expression.evaluate({{symbol, value}}); };
  const auto zero = at(0);
  const auto one = at(1);
  if (!zero.ok() || !one.ok() || *zero == *one) return std::nullopt;
  const std::int64_t value = (size - *zero) / (*one - *zero);
  const auto check = at(value);
  if (!check.ok() || *check != size) return std::nullopt;
  return value;
}

class Binder {
 public:
  Binder(const Plan& plan, const std::vector<TensorDesc>& inputs) : plan_(plan), inputs_(inputs) {}

  Result<SymbolMap> bind() {
    if (inputs_.size() != plan_.inputs.size()) {
      return invalid_argument(inputs_.size(), " inputs given, expected ", plan_.inputs.size());
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) TUTTI_RETURN_IF_ERROR(check_form(i));
    // Bare symbols first; then what is an expression of one more symbol, until nothing is left.
    for (std::size_t i = 0; i < inputs_.size(); ++i) TUTTI_RETURN_IF_ERROR(bind_bare(i));
    for (std::size_t before = symbols_.size() + 1; before != symbols_.size();) {
      before = symbols_.size();
      for (std::size_t i = 0; i < inputs_.size(); ++i) TUTTI_RETURN_IF_ERROR(bind_expressions(i));
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) TUTTI_RETURN_IF_ERROR(check_sizes(i));
    for (const auto& [symbol, value] : symbols_) TUTTI_RETURN_IF_ERROR(check_range(symbol, value));
    return symbols_;
  }

 private:
  const Shape& shape(std::size_t i) const { return plan_.inputs[i].shape; }

  std::string input_text(std::size_t i) const {
    return str_cat("input '", plan_.inputs[i].name, "': ");
  }

  Status misfit(std::size_t i, std::size_t dim, std::string_view why = "") const {
    return invalid_argument(input_text(i), "shape ", join(inputs_[i].dims), " does not fit ",
                            join(shape(i)), " at dimension ", dim, why);
  }

  Status check_form(std::size_t i) const {
    const DType expected = plan_.inputs[i].dtype;
    if (inputs_[i].dtype != expected) {
      return invalid_argument(input_text(i), "element type ", dtype_name(inputs_[i].dtype),
                              ", expected ", dtype_name(expected));
    }
    if (inputs_[i].dims.size() != shape(i).size()) {
      return invalid_argument(input_text(i), "shape ", join(inputs_[i].dims), " does not fit ",
                              join(shape(i)), ": ", inputs_[i].dims.size(),
                              " dimensions, expected ", shape(i).size());
    }
    for (std::size_t d = 0; d < shape(i).size(); ++d) {
      if (inputs_[i].dims[d] < 0) return misfit(i, d);
    }
    return {};
  }

  Status bind_bare(std::size_t i) {
    for (std::size_t d = 0; d < shape(i).size(); ++d) {
      const std::optional<std::string> symbol = shape(i)[d].as_symbol();
      if (!symbol) continue;
      const std::int64_t size = inputs_[i].dims[d];
      const auto [it, is_new] = symbols_.emplace(*symbol, size);
      if (!is_new && it->second != size) {
        return misfit(i, d, str_cat(": ", *symbol, " is ", it->second, " elsewhere"));
      }
    }
    return {};
  }

  Status bind_expressions(std::size_t i) {
    for (std::size_t d = 0; d < shape(i).size(); ++d) {
      const Dim rest = shape(i)[d].substitute(symbols_);
      std::vector<std::string> unknown;
      rest.collect_symbols(&unknown);
      if (unknown.size() != 1) continue;
      const std::optional<std::int64_t> value = solve(rest, unknown[0], inputs_[i].dims[d]);
      if (!value || *value < 0) return misfit(i, d);
      symbols_.emplace(unknown[0], *value);
    }
    return {};
  }

  Status check_sizes(std::size_t i) const {
    for (std::size_t d = 0; d < shape(i).size(); ++d) {
      const Dim& dim = shape(i)[d];
      const Result<std::int64_t> expected = dim.evaluate(symbols_);
      if (!expected.ok()) return misfit(i, d, str_cat(": ", expected.status().message()));
      if (*expected != inputs_[i].dims[d]) {
        return misfit(i, d, dim.is_constant() ? "" : str_cat(": expected ", *expected));
      }
    }
    return {};
  }

  Status check_range(const std::string& symbol, std::int64_t value) const {
    const auto range = plan_.dims.find(symbol);
    if (range == plan_.dims.end()) return {};
    if (value >= range->second.min && value <= range->second.max) return {};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      for (std::size_t d = 0; d < shape(i).size(); ++d) {
        std::vector<std::string> used;
        shape(i)[d].collect_symbols(&used);
        if (std::find(used.begin(), used.end(), symbol) == used.end()) continue;
        return misfit(i, d,
                      str_cat(": ", symbol, " is ", value, ", the plan takes ", range->second.min,
                              " to ", range->second.max));
      }
    }
    return invalid_argument(symbol, " is ", value, ", the plan takes ", range->second.min, " to ",
                            range->second.max);
  }

  const Plan& plan_;
  const std::vector<TensorDesc>& inputs_;
  SymbolMap symbols_;
};

}  // namespace

Result<std::shared_ptr<const ShapeBinding>> bind_shapes(const Plan& plan,
                                                        std::vector<TensorDesc> inputs) {
  auto binding = std::make_shared<ShapeBinding>();
  TUTTI_ASSIGN_OR_RETURN(binding->symbols, Binder(plan, inputs).bind());
  binding->inputs = std::move(inputs);
  for (const PlanTensor& output : plan.outputs) {
    Result<Dims> dims = evaluate(output.shape, binding->symbols);
    if (!dims.ok()) return dims.status().with_context(str_cat("output '", output.name, "'"));
    TUTTI_RETURN_IF_ERROR(checked_byte_size(output.dtype, *dims));
    binding->outputs.push_back({output.dtype, *std::move(dims)});
  }
  return std::shared_ptr<const ShapeBinding>(std::move(binding));
}

Result<std::shared_ptr<const ShapeBinding>> ShapeBindings::find_or_bind(
    std::span<const Tensor> inputs) {
  const auto matches = [&](const std::shared_ptr<const ShapeBinding>& known) {
    return std::equal(
        inputs.begin(), inputs.end(), known->inputs.begin(), known->inputs.end(),
        [](const Tensor& tensor, const TensorDesc& desc) { return tensor.desc() == desc; });
  };
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(recent_.begin(), recent_.end(), matches);
    if (found != recent_.end()) {
      std::rotate(found, found + 1, recent_.end());
      return recent_.back();
    }
  }
  std::vector<TensorDesc> descs;
  for (const Tensor& input : inputs) descs.push_back(input.desc());
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<const ShapeBinding> binding,
                         bind_shapes(plan_, std::move(descs)));
  const std::lock_guard lock(mutex_);
  if (recent_.size() >= capacity_) recent_.erase(recent_.begin());
  recent_.push_back(binding);
  return binding;
}

}  // namespace tutti
