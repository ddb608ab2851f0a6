// Runs one pointwise, movement or reduction node on the CPU kernels, for tests with known results.
#pragma once

#include <initializer_list>
#include <vector>

#include "backends/cpu/kernel_registry.h"
#include "graph/builder.h"

namespace tutti::cpu {

// The operators that run_core knows: pointwise, movement, reductions.
const OpRegistry& core_ops();

struct CoreRun {
  std::string type;
  std::vector<Tensor> inputs;
  AttributeMap attributes;
  int num_outputs = 1;
  int threads = 1;
  bool constant_inputs = false;  // the kernel sees the inputs' data when it is made
};

// Types from inference; outputs and workspace hold 0xff bytes before the run.
Result<std::vector<Tensor>> run_core(const CoreRun& run);

// The first output's elements, or a test failure.
std::vector<double> elements_of(const CoreRun& run);

Tensor floats(Dims dims, std::initializer_list<float> values);
Tensor ints(Dims dims, std::initializer_list<std::int64_t> values);
Tensor bools(Dims dims, std::initializer_list<bool> values);
// 0, 1, 2, ... as f32.
Tensor counting(Dims dims);
// The same values in another element type.
Tensor as_type(const Tensor& tensor, DType dtype);

using Elements = std::vector<double>;

}  // namespace tutti::cpu
