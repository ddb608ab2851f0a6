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

Result<std::vector<Tensor>> random_inputs(const Plan& plan, SymbolMap sizes) {
  for (const auto& [symbol, range] : plan.dims) sizes.emplace(symbol, range.opt);
  std::vector<Tensor> inputs;
  for (const PlanTensor& input : plan.inputs) {
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
