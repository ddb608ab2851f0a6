// Runs one core operator on the CPU backend's kernels, for tests that compare with plain loops.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "backends/cpu/kernel_registry.h"
#include "graph/builder.h"

namespace tutti::cpu {

struct NodeRun {
  std::string type;
  std::vector<Tensor> inputs;  // an undefined tensor is an absent input
  AttributeMap attributes = {};
  std::set<std::size_t> constants = {};  // inputs that the kernel may repack
  int threads = 1;
};

struct NodeResult {
  std::vector<Tensor> outputs;
  std::size_t workspace_bytes = 0;
  std::vector<bool> consumed;  // by input
};

// Types from the operator's infer function, memory filled with garbage (0xff) before the run, two
// runs into the same memory, as the executor would.
Result<NodeResult> run_node(const NodeRun& run);

// f32 tensor of normal random numbers, the same for the same seed.
Tensor random_tensor(Dims dims, unsigned seed, double spread = 1.0);
// The same values in another type.
Tensor converted(const Tensor& tensor, DType dtype);
// Largest |a - b| / (1 + |b|); infinite when shapes differ or a NaN stands against a number.
double difference(const Tensor& a, const std::vector<double>& b);

}  // namespace tutti::cpu
