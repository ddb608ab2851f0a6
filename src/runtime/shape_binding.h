// Checks what a request brings against a plan and finds the values of the plan's symbols.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace tutti {

// One combination of input sizes.
struct ShapeBinding {
  std::vector<TensorDesc> inputs;   // by Plan::inputs
  std::vector<TensorDesc> outputs;  // by Plan::outputs
  SymbolMap symbols;                // sizes only, no rank coordinates
};

// Errors are INVALID_ARGUMENT and name input, sizes and dimension.
Result<std::shared_ptr<const ShapeBinding>> bind_shapes(const Plan& plan,
                                                        std::vector<TensorDesc> inputs);

// Remembers the last combinations, since requests repeat them. Thread-safe.
class ShapeBindings {
 public:
  explicit ShapeBindings(const Plan& plan, std::size_t capacity = 16)
      : plan_(plan), capacity_(capacity) {}

  Result<std::shared_ptr<const ShapeBinding>> find_or_bind(std::span<const Tensor> inputs);

 private:
  const Plan& plan_;
  const std::size_t capacity_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const ShapeBinding>> recent_;  // under mutex_; latest last
};

}  // namespace tutti
