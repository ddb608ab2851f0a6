// Sends traces to an OpenTelemetry collector: OTLP over gRPC, in batches, on a thread of its own.
#pragma once

#include <opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "server/log.h"
#include "server/trace/batch_queue.h"
#include "server/trace/record.h"
#include "server/trace/settings.h"

namespace tutti::server {

// Thread safe. Nobody waits for the collector: spans that it does not take in time are dropped.
class OtlpExporter {
 public:
  OtlpExporter(const OtlpOptions& options, Log log);
  ~OtlpExporter();  // tries to send what waits, for a few seconds at most
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  void put(TraceRecord record);

  std::uint64_t exported() const { return exported_; }  // spans
  std::uint64_t dropped() const { return queue_.dropped() + failed_; }

 private:
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;

  void send(const std::vector<TraceRecord>& batch);
  grpc::Status try_send(const Request& request);
  bool wait_to_retry(int attempt);  // false when the exporter closes
  void report(const grpc::Status& status, std::uint64_t lost);

  const OtlpOptions options_;
  const Log log_;
  const std::unique_ptr<opentelemetry::proto::collector::trace::v1::TraceService::Stub> stub_;
  std::atomic<std::uint64_t> exported_{0};
  std::atomic<std::uint64_t> failed_{0};
  bool is_failing_ = false;  // the queue's thread: said so already
  std::mutex mutex_;
  std::condition_variable closing_;
  bool is_closing_ = false;        // under mutex_
  BatchQueue<TraceRecord> queue_;  // last: its thread uses the others
};

}  // namespace tutti::server
