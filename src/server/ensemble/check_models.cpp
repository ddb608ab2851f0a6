#include <algorithm>

#include "server/config/request_signature.h"
#include "server/datatype.h"
#include "server/ensemble/graph.h"
#include "server/names.h"

namespace tutti::server {
namespace {

// What is known of each ensemble tensor from where it is made.
using Specs = std::vector<std::optional<TensorSpec>>;

const TensorSpec* find_spec(const std::vector<TensorSpec>& specs, const std::string& name) {
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [&](const TensorSpec& spec) { return spec.name == name; });
  return found == specs.end() ? nullptr : &*found;
}

// A size of -1 fits any: only a request can tell.
bool fits(const Dims& made, const Dims& wanted) {
  return std::equal(made.begin(), made.end(), wanted.begin(), wanted.end(),
                    [](std::int64_t a, std::int64_t b) { return a < 0 || b < 0 || a == b; });
}

std::string describe(const TensorSpec& spec) {
  return str_cat(protocol_type_name(spec.dtype), " ", spec.dims);
}

Status check_same(const ConfigFile& file, const std::string& where, const TensorSpec& made,
                  const TensorSpec& wanted) {
  constexpr const char* kField = "ensemble_scheduling";
  if (made.dtype == wanted.dtype && fits(made.dims, wanted.dims)) return Status();
  return file.error(kField, where, ": tensor '", made.name, "' is ", describe(made), ", but '",
                    wanted.name, "' is ", describe(wanted));
}

class Checker {
 public:
  Checker(const ConfigFile& file, const inference::ModelConfig& config, const EnsembleGraph& graph)
      : file_(file),
        config_(config),
        graph_(graph),
        signature_(request_signature(config)),
        specs_(graph.tensors.size()) {}

  Status check(const ModelFinder& finder) {
    for (const TensorSpec& input : signature_.inputs) set(input.name, input);
    for (const EnsembleStep& step : graph_.steps) {
      const auto model = finder.find(step.model_name, step.model_version);
      if (!model.ok()) {
        return file_.error("ensemble_scheduling", "step '", step.model_name,
                           "': ", model.status().message());
      }
      TUTTI_RETURN_IF_ERROR(check_step(step, **model));
    }
    for (const TensorSpec& output : signature_.outputs) {
      const auto& made = specs_[index_of(output.name)];
      if (made) TUTTI_RETURN_IF_ERROR(check_same(file_, "output", *made, output));
    }
    return Status();
  }

 private:
  std::size_t index_of(const std::string& name) const {
    return static_cast<std::size_t>(graph_.find(name) - graph_.tensors.data());
  }
  void set(const std::string& name, TensorSpec spec) {
    const std::size_t index = index_of(name);
    spec.name = name;
    specs_[index] = std::move(spec);
  }

  Status check_step(const EnsembleStep& step, const LoadedModel& model) {
    const std::string where = str_cat("step '", step.model_name, "'");
    if (config_.max_batch_size() > 0 && model.max_batch_size() > 0 &&
        model.max_batch_size() < config_.max_batch_size()) {
      return file_.error("max_batch_size", config_.max_batch_size(), ", but ", where,
                         " takes batches of at most ", model.max_batch_size());
    }
    for (const auto& link : step.inputs) {
      const TensorSpec* wanted = find_spec(model.signature().inputs, link.model_tensor);
      if (wanted == nullptr) return unknown(where, "input", link.model_tensor);
      TUTTI_RETURN_IF_ERROR(check_same(file_, where, *specs_[link.tensor], *wanted));
    }
    for (const TensorSpec& input : model.signature().inputs) {
      const bool is_mapped = std::any_of(
          step.inputs.begin(), step.inputs.end(),
          [&](const EnsembleStep::Link& link) { return link.model_tensor == input.name; });
      if (!is_mapped) {
        return file_.error("ensemble_scheduling", where, ": input '", input.name,
                           "' of the model is missing in the input_map");
      }
    }
    for (const auto& link : step.outputs) {
      const TensorSpec* made = find_spec(model.signature().outputs, link.model_tensor);
      if (made == nullptr) return unknown(where, "output", link.model_tensor);
      set(graph_.tensors[link.tensor].name, *made);
    }
    return Status();
  }

  Status unknown(const std::string& where, const char* kind, const std::string& name) const {
    return file_.error("ensemble_scheduling", where, ": the model has no ", kind, " '",
                       printable(name), "'");
  }

  const ConfigFile& file_;
  const inference::ModelConfig& config_;
  const EnsembleGraph& graph_;
  const ModelSignature signature_;
  Specs specs_;
};

}  // namespace

Status check_ensemble_models(const ConfigFile& file, const inference::ModelConfig& config,
                             const EnsembleGraph& graph, const ModelFinder& finder) {
  return Checker(file, config, graph).check(finder);
}

}  // namespace tutti::server
