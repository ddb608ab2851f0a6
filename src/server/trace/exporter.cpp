#include "server/trace/exporter.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <string>
#include <utility>

#include "server/names.h"
#include "server/trace/otlp.h"
#include "tutti/version.h"

namespace tutti::server {
namespace {

constexpr int kAttempts = 5;
constexpr std::chrono::seconds kPatience{3};  // for one attempt
constexpr std::chrono::milliseconds kFirstPause{500};

std::shared_ptr<grpc::Channel> connect(const OtlpOptions& options) {
  const OtlpTls& tls = options.tls;
  const auto credentials =
      uses_tls(options)
          ? grpc::SslCredentials({tls.certificate, tls.client_key, tls.client_certificate})
          : grpc::InsecureChannelCredentials();
  return grpc::CreateChannel(std::string(otlp_target(options)), credentials);
}

// What the protocol calls retryable.
bool is_retryable(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS: return true;
    default: return false;
  }
}

}  // namespace

OtlpExporter::OtlpExporter(const OtlpOptions& options, Log log)
    : options_(options),
      log_(std::move(log)),
      stub_(opentelemetry::proto::collector::trace::v1::TraceService::NewStub(connect(options))),
      queue_({options.max_queue_size, options.max_export_batch_size, options.schedule_delay},
             [this](const std::vector<TraceRecord>& batch) { send(batch); }) {}

OtlpExporter::~OtlpExporter() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  closing_.notify_all();
  queue_.close();
}

void OtlpExporter::put(TraceRecord record) {
  const std::size_t spans = span_count(record);
  queue_.put(std::move(record), spans);
}

void OtlpExporter::send(const std::vector<TraceRecord>& batch) {
  Request request;
  auto* resource = request.add_resource_spans();
  for (const auto& [name, value] : options_.resource) {
    auto* attribute = resource->mutable_resource()->add_attributes();
    attribute->set_key(name);
    attribute->mutable_value()->set_string_value(value);
  }
  auto* scope = resource->add_scope_spans();
  scope->mutable_scope()->set_name("tutti");
  scope->mutable_scope()->set_version(TUTTI_VERSION);
  for (const TraceRecord& record : batch) add_spans(record, scope);
  const auto spans = static_cast<std::uint64_t>(scope->spans_size());
  grpc::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    status = try_send(request);
    if (status.ok()) {
      exported_ += spans;
      return report(status, 0);
    }
    if (!is_retryable(status) || !wait_to_retry(attempt)) break;
  }
  failed_ += spans;
  report(status, spans);
}

grpc::Status OtlpExporter::try_send(const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  for (const auto& [name, value] : options_.headers) context.AddMetadata(name, value);
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse response;
  return stub_->Export(&context, request, &response);
}

bool OtlpExporter::wait_to_retry(int attempt) {
  std::unique_lock lock(mutex_);
  return !closing_.wait_for(lock, kFirstPause * (1 << attempt), [this] { return is_closing_; });
}

// A collector that is gone is worth a line, not one a batch.
void OtlpExporter::report(const grpc::Status& status, std::uint64_t lost) {
  if (status.ok()) {
    if (is_failing_) log_->info("traces reach the collector at {} again", printable(options_.url));
    is_failing_ = false;
    return;
  }
  if (!is_failing_) {
    log_->warn(
        "the collector at {} does not take traces: {}; {} spans are lost, and more until it does",
        printable(options_.url), printable(status.error_message()), lost);
  }
  is_failing_ = true;
}

}  // namespace tutti::server
