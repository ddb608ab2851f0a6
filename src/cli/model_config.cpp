#include "cli/model_config.h"

#include <google/protobuf/text_format.h>
#include <model_config.pb.h>

#include <filesystem>
#include <fstream>

#include "server/datatype.h"

namespace tutti::cli {
namespace {

template <class Io>
void fill_io(const PlanTensor& tensor, Io* io) {
  io->set_name(tensor.name);
  io->set_data_type(server::config_type(tensor.dtype));
  for (const Dim& dim : tensor.shape) io->add_dims(dim.is_constant() ? dim.constant() : -1);
}

}  // namespace

Status write_model_config(const Plan& plan, const std::string& folder) {
  namespace fs = std::filesystem;
  inference::ModelConfig config;
  config.set_name(fs::path(folder).filename().string());
  config.set_backend("tutti");
  config.set_max_batch_size(0);
  for (const PlanTensor& tensor : plan.inputs) {
    fill_io(tensor, config.add_input());
  }
  for (const PlanTensor& tensor : plan.outputs) {
    fill_io(tensor, config.add_output());
  }
  auto* group = config.add_instance_group();
  group->set_kind(inference::ModelInstanceGroup::KIND_MODEL);
  group->set_count(1);
  if (plan.mesh.num_ranks() > 1) {
    std::string devices;
    for (int rank = 0; rank < plan.mesh.num_ranks(); ++rank) {
      devices += str_cat(rank > 0 ? "," : "", rank);
    }
    auto& parameters = *config.mutable_parameters();
    parameters["enable_multi_device"].set_string_value("true");
    parameters["multi_device_gpus"].set_string_value(devices);
  }
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(config, &text)) {
    return internal_error("config.pbtxt cannot be printed");
  }
  const fs::path path = fs::path(folder) / "config.pbtxt";
  const fs::path temporary = fs::path(folder) / ".config.pbtxt.tmp";
  std::ofstream(temporary) << text;
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) return invalid_argument("file '", path.string(), "': ", error.message());
  return {};
}

}  // namespace tutti::cli
