#include "server/messages.h"

#include <string>

#include "server/datatype.h"

namespace tutti::server {
namespace {

void encode_duration(const DurationStatistic& from, inference::StatisticDuration* to) {
  to->set_count(from.count);
  to->set_ns(from.ns);
}

template <class Message>
void encode_phases(const PhaseStatistics& from, Message* to) {
  encode_duration(from.compute_input, to->mutable_compute_input());
  encode_duration(from.compute_infer, to->mutable_compute_infer());
  encode_duration(from.compute_output, to->mutable_compute_output());
}

}  // namespace

void encode_server_metadata(const ServerMetadata& metadata,
                            inference::ServerMetadataResponse* message) {
  message->set_name(metadata.name);
  message->set_version(metadata.version);
  for (const std::string& extension : metadata.extensions) message->add_extensions(extension);
}

void encode_metadata(const ModelMetadata& metadata, inference::ModelMetadataResponse* message) {
  message->set_name(metadata.name);
  message->set_platform(metadata.platform);
  for (const std::string& version : metadata.versions) message->add_versions(version);
  const auto encode = [](const std::vector<TensorSpec>& specs, auto* tensors) {
    for (const TensorSpec& spec : specs) {
      auto* tensor = tensors->Add();
      tensor->set_name(spec.name);
      tensor->set_datatype(std::string(protocol_type_name(spec.dtype)));
      tensor->mutable_shape()->Add(spec.dims.begin(), spec.dims.end());
    }
  };
  encode(metadata.signature.inputs, message->mutable_inputs());
  encode(metadata.signature.outputs, message->mutable_outputs());
}

void encode_statistics(const std::vector<ModelStatisticsEntry>& entries,
                       inference::ModelStatisticsResponse* message) {
  for (const ModelStatisticsEntry& entry : entries) {
    const StatisticsSnapshot& statistics = entry.statistics;
    auto* model = message->add_model_stats();
    model->set_name(entry.name);
    model->set_version(entry.version);
    model->set_last_inference(statistics.last_inference_ms);
    model->set_inference_count(statistics.inference_count);
    model->set_execution_count(statistics.execution_count);
    auto* totals = model->mutable_inference_stats();
    encode_duration(statistics.success, totals->mutable_success());
    encode_duration(statistics.fail, totals->mutable_fail());
    encode_duration(statistics.queue, totals->mutable_queue());
    encode_phases(statistics.phases, totals);
    encode_duration({}, totals->mutable_cache_hit());
    encode_duration({}, totals->mutable_cache_miss());
    for (const auto& [size, phases] : statistics.by_batch_size) {
      auto* batch = model->add_batch_stats();
      batch->set_batch_size(static_cast<std::uint64_t>(size));
      encode_phases(phases, batch);
    }
  }
}

void encode_index(const std::vector<IndexEntry>& entries,
                  inference::RepositoryIndexResponse* message) {
  for (const IndexEntry& entry : entries) {
    auto* model = message->add_models();
    model->set_name(entry.name);
    model->set_version(entry.version);
    model->set_state(entry.state);
    model->set_reason(entry.reason);
  }
}

}  // namespace tutti::server
