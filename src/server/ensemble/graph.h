// ensemble_scheduling as a graph: which step needs which tensor, and where each comes from.
#pragma once

#include <model_config.pb.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/config/config_file.h"
#include "server/repository/model_loader.h"

namespace tutti::server {

struct EnsembleStep {
  struct Link {
    std::string model_tensor;  // its name in the step's model
    std::size_t tensor;        // index in EnsembleGraph::tensors
  };
  std::string model_name;
  std::string model_version;  // "" for the newest
  std::vector<Link> inputs;
  std::vector<Link> outputs;
};

struct EnsembleTensor {
  std::string name;
  std::optional<std::size_t> producer;  // a step; without one it is an input of the ensemble
  std::vector<std::size_t> consumers;   // steps, each once
};

// Steps are in an order in which they can run.
struct EnsembleGraph {
  std::vector<EnsembleTensor> tensors;
  std::vector<EnsembleStep> steps;

  const EnsembleTensor* find(const std::string& name) const;
  // Which steps the outputs with these names need.
  std::vector<bool> steps_for(const std::vector<std::string>& outputs) const;
};

// INVALID_ARGUMENT names the field and the tensor: one that nothing makes, or two things, an output
// that no step makes, steps that wait for each other.
Result<EnsembleGraph> make_ensemble_graph(const ConfigFile& file);

// The steps against their models, which must be loaded: names, element types and shapes from where
// a tensor is made to where it is used.
Status check_ensemble_models(const ConfigFile& file, const inference::ModelConfig& config,
                             const EnsembleGraph& graph, const ModelFinder& finder);

}  // namespace tutti::server
