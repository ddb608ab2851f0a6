#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h>

#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "fakes.h"
#include "server/trace/manager.h"

namespace tutti::server {
namespace {

constexpr int kThreads = 4;
constexpr int kRequests = 200;  // of each thread

// Every thread's requests pass one model each.
void trace_from_threads(TraceManager& manager) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&manager, model = "model" + std::to_string(i % 2)] {
      for (int k = 0; k < kRequests; ++k) {
        const auto trace =
            manager.sample(model, "grpc", std::nullopt, std::chrono::steady_clock::now());
        if (!trace) continue;
        {
          const auto passed = trace->start_model();
          passed->record().model_name = model;
        }
        trace->answered(Status());
        const TracedSending sending(trace, "GRPC_SEND_START", "GRPC_SEND_END");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// One entry of a trace names its model.
std::size_t count_traces(const std::string& path) {
  std::ifstream file(path);
  const auto entries = nlohmann::json::parse(file);
  return static_cast<std::size_t>(std::count_if(
      entries.begin(), entries.end(), [](const auto& one) { return one.contains("model_name"); }));
}

TEST(TraceManager, EveryTraceIsInTheFileWhileSettingsChange) {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/trace.json";
  TraceOptions options;
  options.settings.timestamps = true;
  options.settings.rate = 1;
  options.settings.file = path;
  TraceCounts counts;
  {
    TraceManager manager(options, make_silent_log());
    std::thread changes([&] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(manager.update("model0", {{"trace_rate", {"1"}}}).ok());
        EXPECT_TRUE(manager.update("", {{"log_frequency", {"0"}}}).ok());
        EXPECT_TRUE(manager.update("model0", {{"trace_rate", {}}}).ok());
        manager.counts();
      }
    });
    trace_from_threads(manager);
    changes.join();
    counts = manager.counts();
  }
  EXPECT_EQ(counts.exported + counts.dropped, kThreads * kRequests);
  EXPECT_EQ(count_traces(path), counts.exported);
}

class Collector final : public opentelemetry::proto::collector::trace::v1::TraceService::Service {
 public:
  grpc::Status Export(
      grpc::ServerContext*,
      const opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest* request,
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse*) override {
    for (const auto& resource : request->resource_spans()) {
      for (const auto& scope : resource.scope_spans()) {
        for (const auto& span : scope.spans()) requests += span.parent_span_id().empty() ? 1 : 0;
      }
    }
    return grpc::Status::OK;
  }

  std::atomic<std::uint64_t> requests{0};  // spans that have none above them
};

TEST(TraceManager, TheCollectorGetsEveryRequest) {
  Collector collector;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&collector);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  TraceOptions options;
  options.mode = TraceMode::kOpenTelemetry;
  options.settings.timestamps = true;
  options.settings.rate = 1;
  options.otlp.url = "127.0.0.1:" + std::to_string(port);
  options.otlp.max_queue_size = 100000;
  options.otlp.max_export_batch_size = 100;
  {
    TraceManager manager(options, make_silent_log());
    trace_from_threads(manager);
    EXPECT_EQ(manager.counts().dropped, 0U);
  }
  EXPECT_EQ(collector.requests, kThreads * kRequests);
}

}  // namespace
}  // namespace tutti::server
