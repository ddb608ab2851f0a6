#include "cli/random_inputs.h"

#include <random>

#include "base/dispatch.h"

namespace tutti::cli {

Status fill_random(Tensor* tensor, std::uint32_t seed) {
  std::minstd_rand random(seed + 1);
  return dispatch_dtype(tensor->dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = tensor->template mutable_data_as<T>();
    for (std::int64_t i = 0; i < tensor->element_count(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        data[i] = static_cast<T>(random() & 1U);
      } else {
        const auto unit = static_cast<float>(random()) / static_cast<float>(random.max());
        data[i] = static_cast<T>(2 * unit - 1);
      }
    }
    return Status();
  });
}

Result<std::vector<Tensor>> random_inputs(const Plan& plan, SymbolMap sizes,
                                          const GivenInputs& given) {
  for (const PlanTensor& input : plan.inputs) {
    const auto it = given.find(input.name);
    if (it == given.end() || it->second.dims().size() != input.shape.size()) continue;
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      const auto symbol = input.shape[d].as_symbol();
      if (symbol) sizes.emplace(*symbol, it->second.dims()[d]);
    }
  }
  for (const auto& [symbol, range] : plan.dims) sizes.emplace(symbol, range.opt);
  std::vector<Tensor> inputs;
  for (const PlanTensor& input : plan.inputs) {
    if (const auto it = given.find(input.name); it != given.end()) {
      inputs.push_back(it->second);
      continue;
    }
    auto dims = evaluate(input.shape, sizes);
    if (!dims.ok()) {
      return dims.status().with_context(
          str_cat("input '", input.name, "' of shape ", input.shape, " (give --size NAME=SIZE)"));
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(input.dtype, *std::move(dims)));
    TUTTI_RETURN_IF_ERROR(fill_random(&tensor, static_cast<std::uint32_t>(inputs.size())));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace tutti::cli
