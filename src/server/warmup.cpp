#include "server/warmup.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "base/dims.h"
#include "server/config/request_signature.h"
#include "server/datatype.h"
#include "server/names.h"
#include "server/request_checks.h"

namespace tutti::server {
namespace {

using inference::ModelConfig;
using inference::ModelWarmup;
using Sample = ModelWarmup;
using SampleInput = ModelWarmup::Input;

std::string field_of(int index) { return str_cat("model_warmup[", index, "]"); }

const inference::ModelInput* find_input(const ModelConfig& config, const std::string& name) {
  const auto found = std::find_if(config.input().begin(), config.input().end(),
                                  [&](const auto& input) { return input.name() == name; });
  return found == config.input().end() ? nullptr : &*found;
}

Status check_sample_input(const ConfigFile& file, const std::string& field, const std::string& name,
                          const SampleInput& input, const inference::ModelInput* wanted) {
  const std::string path = str_cat(field, ".inputs[\"", printable(name), "\"]");
  if (wanted == nullptr) return file.error(path, "the model has no such input");
  if (input.data_type() != wanted->data_type()) {
    return file.error(path, DataType_Name(input.data_type()), ", the model has ",
                      DataType_Name(wanted->data_type()));
  }
  if (input.input_data_type_case() == SampleInput::INPUT_DATA_TYPE_NOT_SET) {
    return file.error(path, "has no data, expected zero_data, random_data or input_data_file");
  }
  const std::string& data = input.input_data_file();
  if (data.find('/') != std::string::npos || data == "." || data == "..") {
    return file.error(path, "input_data_file '", printable(data),
                      "' is no plain file name in the folder warmup");
  }
  for (const std::int64_t size : input.dims()) {
    if (size < 1) return file.error(path, "size ", size, " in dims, expected at least 1");
  }
  return Status();
}

// One request: the bytes, and the inputs that point into them.
struct Request {
  std::vector<std::vector<std::byte>> buffers;
  InferRequest request;
};

void fill_random(DType dtype, std::vector<std::byte>* bytes) {
  std::mt19937 random(1);  // the same for every load, so that a failure comes again
  if (dtype == DType::kFloat32) {
    std::uniform_real_distribution<float> values(0, 1);
    for (std::size_t at = 0; at + sizeof(float) <= bytes->size(); at += sizeof(float)) {
      const float value = values(random);
      std::memcpy(bytes->data() + at, &value, sizeof(value));
    }
    return;
  }
  // Small positive numbers of any type: the lowest byte, where no exponent is.
  const std::size_t size = dtype_size(dtype);
  for (std::size_t at = 0; at < bytes->size(); at += size) {
    (*bytes)[at] = static_cast<std::byte>(random() & 1U);
  }
}

Result<std::vector<std::byte>> read_data(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return not_found("file '", path.string(), "' is missing");
  std::vector<std::byte> bytes(static_cast<std::size_t>(stream.tellg()));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream) return invalid_argument("file '", path.string(), "' cannot be read");
  return bytes;
}

// One row of the batch, or all there is of a model that does not batch.
Result<std::vector<std::byte>> row_data(const SampleInput& input, DType dtype,
                                        const std::filesystem::path& folder) {
  if (!input.input_data_file().empty())
    return read_data(folder / "warmup" / input.input_data_file());
  const Dims dims(input.dims().begin(), input.dims().end());
  constexpr std::int64_t kEmptyString = 4;  // its length
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t elements, checked_element_count(dims));
  if (dtype == DType::kString) {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t bytes, checked_mul(elements, kEmptyString));
    return std::vector<std::byte>(static_cast<std::size_t>(bytes));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t bytes, checked_byte_size(dtype, dims));
  std::vector<std::byte> data(static_cast<std::size_t>(bytes));
  if (input.has_random_data()) fill_random(dtype, &data);
  return data;
}

Result<Request> make_request(const ModelConfig& config, const Sample& sample,
                             const std::filesystem::path& folder) {
  Request made;
  const bool is_batched = config.max_batch_size() > 0;
  const std::size_t rows = is_batched ? std::max(sample.batch_size(), 1U) : 1;
  made.buffers.reserve(sample.inputs().size());
  for (const auto& [name, input] : sample.inputs()) {
    TUTTI_ASSIGN_OR_RETURN(const DType dtype, from_config_type(input.data_type()));
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::byte> row, row_data(input, dtype, folder));
    std::vector<std::byte>& data = made.buffers.emplace_back();
    for (std::size_t i = 0; i < rows; ++i) data.insert(data.end(), row.begin(), row.end());
    InferInput made_input{name, dtype, {}, data};
    if (is_batched) made_input.shape.push_back(static_cast<std::int64_t>(rows));
    made_input.shape.insert(made_input.shape.end(), input.dims().begin(), input.dims().end());
    made.request.inputs.push_back(std::move(made_input));
  }
  TUTTI_RETURN_IF_ERROR(
      check_request(request_signature(config), config.max_batch_size(), &made.request).status());
  return made;
}

class DroppingSink final : public OutputSink {
 public:
  explicit DroppingSink(std::size_t outputs) : outputs_(outputs) {}
  Result<std::byte*> allocate(std::size_t position, const OutputDesc&, std::size_t bytes) override {
    outputs_[position].resize(bytes);
    return outputs_[position].data();
  }

 private:
  std::vector<std::vector<std::byte>> outputs_;
};

}  // namespace

Status check_warmup(const ConfigFile& file, const ModelConfig& config) {
  for (int i = 0; i < config.model_warmup_size(); ++i) {
    const Sample& sample = config.model_warmup(i);
    const std::int64_t largest = std::max(config.max_batch_size(), 1);
    if (sample.batch_size() < 1 || sample.batch_size() > largest) {
      return file.error(str_cat(field_of(i), ".batch_size"), sample.batch_size(),
                        ", expected 1 to ", largest);
    }
    for (const auto& [name, input] : sample.inputs()) {
      TUTTI_RETURN_IF_ERROR(
          check_sample_input(file, field_of(i), name, input, find_input(config, name)));
    }
    for (const auto& input : config.input()) {
      if (!sample.inputs().contains(input.name())) {
        return file.error(str_cat(field_of(i), ".inputs"), "'", input.name(), "' is missing");
      }
    }
  }
  return Status();
}

Status warm_up(const ConfigFile& file, const ModelConfig& config,
               const std::filesystem::path& folder, ServableModel& model) {
  for (int i = 0; i < config.model_warmup_size(); ++i) {
    const Sample& sample = config.model_warmup(i);
    const auto run = [&]() -> Status {
      TUTTI_ASSIGN_OR_RETURN(const Request made, make_request(config, sample, folder));
      for (std::uint32_t turn = 0; turn < std::max(sample.count(), 1U); ++turn) {
        const auto sink = std::make_shared<DroppingSink>(made.request.outputs.size());
        TUTTI_RETURN_IF_ERROR(model.infer(made.request, sink).status());
      }
      return Status();
    };
    if (const Status status = run(); !status.ok()) {
      return status.with_context(str_cat(file.location(field_of(i)), ": ", field_of(i), " '",
                                         printable(sample.name()), "'"));
    }
  }
  return Status();
}

}  // namespace tutti::server
