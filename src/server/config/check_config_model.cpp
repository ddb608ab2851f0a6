#include <algorithm>

#include "server/config/check_config.h"
#include "server/datatype.h"

namespace tutti::server {
namespace {

template <class Tensors>
Status check_tensors(const ConfigFile& file, const Tensors& tensors, std::string_view list,
                     const std::vector<TensorSpec>& specs, std::int64_t max_batch_size) {
  const auto index_of = [&](const std::string& name) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const auto& tensor) { return tensor.name() == name; });
    return static_cast<int>(found - tensors.begin());
  };
  std::string names;
  for (const TensorSpec& spec : specs)
    names += str_cat(names.empty() ? "'" : ", '", spec.name, "'");
  for (int i = 0; i < tensors.size(); ++i) {
    if (std::none_of(specs.begin(), specs.end(),
                     [&](const TensorSpec& spec) { return spec.name == tensors[i].name(); })) {
      return file.error(str_cat(list, "[", i, "].name"), "the model has no ", list, " '",
                        tensors[i].name(), "', it has ", names);
    }
  }
  for (const TensorSpec& spec : specs) {
    const int i = index_of(spec.name);
    if (i == tensors.size()) {
      return file.error(list, "'", spec.name, "' of the model is missing; it has ", names);
    }
    const auto& tensor = tensors[i];
    const std::string field = str_cat(list, "[", i, "]");
    if (tensor.data_type() != config_type(spec.dtype)) {
      return file.error(str_cat(field, ".data_type"), DataType_Name(tensor.data_type()), " of '",
                        spec.name, "', the model has ", DataType_Name(config_type(spec.dtype)));
    }
    Dims dims(tensor.dims().begin(), tensor.dims().end());
    if (max_batch_size > 0) dims.insert(dims.begin(), -1);
    const std::string whole = str_cat(dims, max_batch_size > 0 ? " (batch first)" : "");
    if (dims.size() != spec.dims.size()) {
      return file.error(str_cat(field, ".dims"), whole, " of '", spec.name, "' has rank ",
                        dims.size(), ", the model has ", spec.dims);
    }
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (d == 0 && max_batch_size > 0) {
        if (spec.dims[0] >= 0 && spec.dims[0] != max_batch_size) {
          return file.error("max_batch_size", max_batch_size, ", but the model takes batches of ",
                            spec.dims[0], " only: '", spec.name, "' is ", spec.dims);
        }
      } else if (spec.dims[d] >= 0 && dims[d] != spec.dims[d]) {
        return file.error(str_cat(field, ".dims"), whole, " of '", spec.name,
                          "' differs from the model's ", spec.dims, " at dimension ", d);
      }
    }
  }
  return Status();
}

}  // namespace

Status check_config_model(const ConfigFile& file, const inference::ModelConfig& config,
                          const ModelFacts& model) {
  const std::int64_t batch = config.max_batch_size();
  if (model.largest_batch > 0 && batch > model.largest_batch) {
    return file.error("max_batch_size", batch, ", but the model takes batches of at most ",
                      model.largest_batch);
  }
  TUTTI_RETURN_IF_ERROR(
      check_tensors(file, config.input(), "input", model.signature.inputs, batch));
  return check_tensors(file, config.output(), "output", model.signature.outputs, batch);
}

}  // namespace tutti::server
