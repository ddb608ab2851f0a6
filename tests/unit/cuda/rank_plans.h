// Plans written as text, for ranks on CUDA devices.
#pragma once

#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"
#include "graph/printer.h"
#include "runtime/instance.h"
#include "support/core_ops.h"

namespace tutti::cuda {

// Over the mesh cp=RANKS; $N in the text is RANKS.
inline Plan plan_of(int ranks, std::string text) {
  const std::string number = std::to_string(ranks);
  for (std::size_t at = 0; (at = text.find("$N", at)) != std::string::npos;) {
    text.replace(at, 2, number);
  }
  Plan plan;
  plan.mesh = *Mesh::parse("cp=" + number);
  auto graph = parse_graph(text, test::core_ops());
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  if (!graph.ok()) return plan;
  plan.main = *std::move(graph);
  for (const Value* input : plan.main->inputs()) {
    plan.inputs.push_back({input->name(), input->dtype(), input->shape()});
  }
  for (const Value* output : plan.main->outputs()) {
    plan.outputs.push_back({output->name(), output->dtype(), output->shape()});
  }
  return plan;
}

inline Tensor numbers(Dims dims, int seed) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.mutable_data_as<float>()[i] = static_cast<float>((i * 7 + seed * 13) % 19) * 0.25F;
  }
  return tensor;
}

// Ranks over so many devices, in turn.
inline std::vector<int> deal_out(int ranks, int devices) {
  std::vector<int> by_rank;
  for (int rank = 0; rank < ranks; ++rank) by_rank.push_back(rank % devices);
  return by_rank;
}

}  // namespace tutti::cuda
