#include "server/ensemble/graph.h"

#include <algorithm>
#include <map>

#include "server/names.h"

namespace tutti::server {
namespace {

using Step = inference::ModelEnsembling::Step;

std::string step_field(int index) { return str_cat("ensemble_scheduling.step[", index, "]"); }

class Builder {
 public:
  explicit Builder(const ConfigFile& file) : file_(file) {}

  Result<EnsembleGraph> build() {
    const inference::ModelConfig& config = file_.config();
    const auto& steps = config.ensemble_scheduling().step();
    if (steps.empty()) return file_.error("ensemble_scheduling.step", "is empty");
    for (const auto& input : config.input()) tensor(input.name());
    graph_.steps.resize(static_cast<std::size_t>(steps.size()));
    for (int i = 0; i < steps.size(); ++i) TUTTI_RETURN_IF_ERROR(add_outputs(steps[i], i));
    for (int i = 0; i < steps.size(); ++i) TUTTI_RETURN_IF_ERROR(add_inputs(steps[i], i));
    for (int i = 0; i < config.output_size(); ++i) TUTTI_RETURN_IF_ERROR(check_output(i));
    TUTTI_RETURN_IF_ERROR(sort());
    return std::move(graph_);
  }

 private:
  std::size_t tensor(const std::string& name) {
    const auto [found, is_new] = index_.try_emplace(name, graph_.tensors.size());
    if (is_new) graph_.tensors.push_back({name, std::nullopt, {}});
    return found->second;
  }

  Status add_outputs(const Step& step, int i) {
    const std::string field = step_field(i);
    if (!check_model_name(step.model_name()).ok()) {
      return file_.error(str_cat(field, ".model_name"), "'", printable(step.model_name()),
                         "' is no model's name");
    }
    if (step.model_version() == 0 || step.model_version() < -1) {
      return file_.error(str_cat(field, ".model_version"), step.model_version(),
                         ", expected a version, or -1 for the newest");
    }
    if (!step.model_namespace().empty()) {
      return file_.error(str_cat(field, ".model_namespace"), "is not supported by this server");
    }
    EnsembleStep& made = graph_.steps[static_cast<std::size_t>(i)];
    made.model_name = step.model_name();
    if (step.model_version() > 0) made.model_version = std::to_string(step.model_version());
    const std::map<std::string, std::string> sorted(step.output_map().begin(),
                                                    step.output_map().end());
    if (sorted.empty()) return file_.error(str_cat(field, ".output_map"), "is empty");
    for (const auto& [model_tensor, name] : sorted) {
      if (index_.contains(name)) {
        return file_.error(str_cat(field, ".output_map"), "'", printable(name),
                           "' is an input of the ensemble or made by another output already");
      }
      made.outputs.push_back({model_tensor, tensor(name)});
      graph_.tensors.back().producer = static_cast<std::size_t>(i);
    }
    return Status();
  }

  Status add_inputs(const Step& step, int i) {
    EnsembleStep& made = graph_.steps[static_cast<std::size_t>(i)];
    const std::map<std::string, std::string> sorted(step.input_map().begin(),
                                                    step.input_map().end());
    if (sorted.empty()) return file_.error(str_cat(step_field(i), ".input_map"), "is empty");
    for (const auto& [model_tensor, name] : sorted) {
      const auto found = index_.find(name);
      if (found == index_.end()) {
        return file_.error(str_cat(step_field(i), ".input_map"), "'", printable(name),
                           "' is neither an input of the ensemble nor in any output_map");
      }
      made.inputs.push_back({model_tensor, found->second});
      auto& consumers = graph_.tensors[found->second].consumers;
      if (consumers.empty() || consumers.back() != static_cast<std::size_t>(i)) {
        consumers.push_back(static_cast<std::size_t>(i));
      }
    }
    return Status();
  }

  Status check_output(int i) const {
    const std::string& name = file_.config().output(i).name();
    const auto found = index_.find(name);
    if (found != index_.end() && graph_.tensors[found->second].producer) return Status();
    return file_.error(str_cat("output[", i, "].name"), "'", printable(name),
                       "' is in no step's output_map");
  }

  // Kahn's algorithm; what is left over waits for itself.
  Status sort() {
    const std::size_t count = graph_.steps.size();
    std::vector<std::size_t> order;
    std::vector<bool> is_placed(count, false);
    const auto can_run = [&](const EnsembleStep& step) {
      return std::all_of(step.inputs.begin(), step.inputs.end(), [&](const auto& input) {
        const auto producer = graph_.tensors[input.tensor].producer;
        return !producer || is_placed[*producer];
      });
    };
    for (bool is_progress = true; is_progress;) {
      is_progress = false;
      for (std::size_t i = 0; i < count; ++i) {
        if (is_placed[i] || !can_run(graph_.steps[i])) continue;
        is_placed[i] = true;
        order.push_back(i);
        is_progress = true;
      }
    }
    if (order.size() < count) return cycle_error(is_placed);
    reorder(order);
    return Status();
  }

  Status cycle_error(const std::vector<bool>& is_placed) const {
    std::string names;
    for (std::size_t i = 0; i < is_placed.size(); ++i) {
      if (is_placed[i]) continue;
      names += str_cat(names.empty() ? "" : ", ", i, " ('", graph_.steps[i].model_name, "')");
    }
    return file_.error("ensemble_scheduling.step", "there is a cycle: steps ", names,
                       " wait for each other's outputs");
  }

  void reorder(const std::vector<std::size_t>& order) {
    std::vector<EnsembleStep> steps;
    std::vector<std::size_t> places(order.size());
    for (const std::size_t old : order) {
      places[old] = steps.size();
      steps.push_back(std::move(graph_.steps[old]));
    }
    graph_.steps = std::move(steps);
    for (EnsembleTensor& tensor : graph_.tensors) {
      if (tensor.producer) tensor.producer = places[*tensor.producer];
      for (std::size_t& consumer : tensor.consumers) consumer = places[consumer];
    }
  }

  const ConfigFile& file_;
  EnsembleGraph graph_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace

const EnsembleTensor* EnsembleGraph::find(const std::string& name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const auto& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::vector<bool> EnsembleGraph::steps_for(const std::vector<std::string>& outputs) const {
  std::vector<bool> is_needed(steps.size(), false);
  for (const std::string& name : outputs) {
    if (const EnsembleTensor* tensor = find(name)) is_needed[*tensor->producer] = true;
  }
  for (std::size_t i = steps.size(); i-- > 0;) {
    if (!is_needed[i]) continue;
    for (const auto& input : steps[i].inputs) {
      if (const auto producer = tensors[input.tensor].producer) is_needed[*producer] = true;
    }
  }
  return is_needed;
}

Result<EnsembleGraph> make_ensemble_graph(const ConfigFile& file) { return Builder(file).build(); }

}  // namespace tutti::server
