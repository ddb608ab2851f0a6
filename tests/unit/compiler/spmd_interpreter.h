// Runs graphs for tests: all ranks of a mesh in lockstep, node by node, with the CPU backend's
// kernels. Exchanges are done by their definition (put the pieces together, cut again), so neither
// executor nor communicators take part.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/cpu/evaluator.h"
#include "compiler/compile.h"

namespace tutti {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

// f32 numbers between -1 and 1, the same for the same seed.
Tensor random_f32(Dims dims, unsigned seed);

// Binds the symbols that stand alone in the graph's input shapes.
SymbolMap bind_sizes(const std::vector<GlobalTensor>& inputs, const NamedTensors& tensors);

class SpmdInterpreter {
 public:
  explicit SpmdInterpreter(const OpRegistry* ops) : ops_(ops) {}

  // Outputs by rank and position.
  Result<std::vector<std::vector<Tensor>>> run(const CompiledModel& model,
                                               const NamedTensors& inputs);
  // A graph without exchanges on one rank.
  Result<std::vector<Tensor>> run_whole(const Graph& graph, const NamedTensors& inputs,
                                        const SymbolMap& sizes);

  // Bytes of elements that changed ranks in all exchanges of the last run: those that an owner
  // under the first layout does not keep under the second, and new owners lack.
  std::int64_t moved_bytes() const { return moved_bytes_; }

 private:
  using RankValues = std::vector<std::map<const Value*, Tensor>>;

  Status run_graph(const Graph& graph, const Mesh& mesh, const std::vector<SymbolMap>& symbols,
                   const std::vector<NamedTensors>& inputs, RankValues* values);
  Result<std::vector<Tensor>> run_node(const Node& node, const std::vector<Tensor>& inputs,
                                       const SymbolMap& symbols);
  // The body of a Fused node, node by node.
  Result<std::vector<Tensor>> run_body(const Graph& body, const std::vector<Tensor>& inputs,
                                       const SymbolMap& symbols);
  Status run_exchange(const Node& node, const Mesh& mesh, const std::vector<SymbolMap>& symbols,
                      RankValues* values);

  Status run_ring(const Node& node, const Mesh& mesh, const std::vector<SymbolMap>& symbols,
                  RankValues* values);

  const OpRegistry* ops_;
  cpu::CpuEvaluator evaluator_;
  std::int64_t moved_bytes_ = 0;
};

// Largest |a - b| over the largest |b|; infinite when the shapes differ.
double relative_error(const Tensor& a, const Tensor& b);

}  // namespace tutti
