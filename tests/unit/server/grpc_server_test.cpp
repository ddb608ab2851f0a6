// The whole server in this process, asked through a C++ client.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <health.grpc.pb.h>

#include <future>
#include <thread>

#include "fakes.h"
#include "server/server.h"

namespace tutti::server {
namespace {

using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using test::FakeBackend;
using test::Gate;
using test::raw;
using test::TempFolder;
using ::testing::HasSubstr;

class GrpcServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("identity/1/model.plan", "identity");
    folder_.write("string/1/model.plan", "string");
    folder_.write("batched/1/model.plan", "identity");
    folder_.write("batched/config.pbtxt", "max_batch_size: 16");
  }

  void start(ControlMode mode = ControlMode::kNone) {
    ServerOptions options;
    options.repository = {{folder_.path()}, mode, {}};
    if (mode == ControlMode::kExplicit) options.repository.startup_models = {"identity"};
    options.grpc->port = 0;
    options.queue_capacity = 64;
    std::vector<std::unique_ptr<ModelBackend>> backends;
    backends.push_back(std::make_unique<FakeBackend>(gate_));
    auto server = Server::start(std::move(options), std::move(backends), make_silent_log());
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->grpc()->endpoint(), grpc::InsecureChannelCredentials());
    stub_ = GRPCInferenceService::NewStub(channel_);
  }

  static ModelInferRequest good(const std::string& model = "identity", int rows = 1) {
    ModelInferRequest request;
    request.set_model_name(model);
    request.set_id("42");
    auto* input = request.add_inputs();
    input->set_name("x");
    input->set_datatype("FP32");
    input->add_shape(rows);
    input->add_shape(4);
    std::vector<float> values(static_cast<std::size_t>(rows) * 4);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.5F;
    request.add_raw_input_contents(raw(values));
    return request;
  }

  grpc::Status infer(const ModelInferRequest& request, ModelInferResponse* response = nullptr) {
    ModelInferResponse ignored;
    grpc::ClientContext context;
    return stub_->ModelInfer(&context, request, response == nullptr ? &ignored : response);
  }

  void expect_healthy() {
    grpc::ClientContext live_context, ready_context;
    inference::ServerLiveResponse live;
    inference::ServerReadyResponse ready;
    ASSERT_TRUE(stub_->ServerLive(&live_context, {}, &live).ok());
    ASSERT_TRUE(stub_->ServerReady(&ready_context, {}, &ready).ok());
    EXPECT_TRUE(live.live());
    EXPECT_TRUE(ready.ready());
    ModelInferResponse response;
    const grpc::Status status = infer(good(), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.raw_output_contents(0), good().raw_input_contents(0));
  }

  void expect_refused(const ModelInferRequest& request, const std::string& part,
                      grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
    const grpc::Status status = infer(request);
    EXPECT_EQ(status.error_code(), code) << part << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(part));
    expect_healthy();
  }

  inference::ModelStatistics statistics(const std::string& model) {
    grpc::ClientContext context;
    inference::ModelStatisticsRequest request;
    request.set_name(model);
    inference::ModelStatisticsResponse response;
    EXPECT_TRUE(stub_->ModelStatistics(&context, request, &response).ok());
    EXPECT_EQ(response.model_stats_size(), 1);
    return response.model_stats(0);
  }

  TempFolder folder_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<GRPCInferenceService::Stub> stub_;
};

TEST_F(GrpcServerTest, GoodRequestComesBack) {
  start();
  ModelInferResponse response;
  ASSERT_TRUE(infer(good("identity", 3), &response).ok());
  EXPECT_EQ(response.model_name(), "identity");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.id(), "42");
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.outputs(0).name(), "y");
  EXPECT_EQ(response.outputs(0).datatype(), "FP32");
  EXPECT_EQ(response.outputs(0).shape(0), 3);
  EXPECT_EQ(response.raw_output_contents(0), good("identity", 3).raw_input_contents(0));
}

TEST_F(GrpcServerTest, EveryBadRequestIsRefusedAndTheServerStaysWell) {
  start();
  ModelInferRequest request = good();
  request.mutable_inputs(0)->set_shape(0, -1);
  expect_refused(request, "input 'x': shape [-1, 4] has a negative size");

  request = good();
  request.mutable_inputs(0)->set_shape(0, 16);
  request.mutable_inputs(0)->set_shape(1, (1LL << 60) + 2);
  expect_refused(request, "input 'x'");

  request = good();
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  expect_refused(request, "contents is set beside raw_input_contents");

  request = good();
  *request.add_inputs() = request.inputs(0);
  request.add_raw_input_contents(request.raw_input_contents(0));
  expect_refused(request, "input 'x' is given twice");

  request = good();
  request.add_outputs()->set_name("y");
  request.add_outputs()->set_name("y");
  expect_refused(request, "output 'y' is requested twice");

  request = good();
  request.add_outputs()->set_name("nope");
  expect_refused(request, "unknown output 'nope'");

  request = good();
  request.mutable_raw_input_contents(0)->pop_back();
  expect_refused(request, "15 bytes of data, expected 16");

  request = good();
  request.mutable_inputs(0)->set_datatype("FP64");
  expect_refused(request, "16 bytes of data, expected 32");

  request = good();
  request.clear_inputs();
  request.clear_raw_input_contents();
  expect_refused(request, "input 'x' is missing");

  for (const char* name : {"", "..", "../etc", "a/b"}) {
    expect_refused(good(name), "model name");
  }
  expect_refused(good("..."), "'...' is not found", grpc::StatusCode::NOT_FOUND);
  expect_refused(good("nope"), "Request for unknown model: 'nope' is not found",
                 grpc::StatusCode::NOT_FOUND);
  request = good();
  request.set_model_version("2");
  expect_refused(request, "'identity' version 2 is not found", grpc::StatusCode::NOT_FOUND);
  for (const char* version : {"-1", "one", "1.0", "99999999999999999999"}) {
    request.set_model_version(version);
    expect_refused(request, "expected digits");
  }
  expect_refused(good("batched", 17), "batch size 17");

  request = good("string");
  request.mutable_inputs(0)->set_datatype("BYTES");
  request.mutable_raw_input_contents(0)->assign("\x09\0\0\0ab", 6);
  expect_refused(request, "input 'x': BYTES element 0 at byte 0 has length 9");
  request.mutable_raw_input_contents(0)->assign("ab");
  expect_refused(request, "expected a 4-byte length");
}

TEST_F(GrpcServerTest, MessageThatIsNoProtobufIsRefused) {
  start();
  // A length-delimited field that ends before its length.
  grpc::Slice slice(std::string("\x0a\x7f"
                                "abc"));
  grpc::ByteBuffer garbage(&slice, 1), answer;
  grpc::ClientContext context;
  grpc::GenericStub stub(channel_);
  std::promise<grpc::Status> status;
  stub.UnaryCall(&context, "/inference.GRPCInferenceService/ModelInfer", {}, &garbage, &answer,
                 [&](grpc::Status answered) { status.set_value(answered); });
  EXPECT_FALSE(status.get_future().get().ok());
  expect_healthy();
}

TEST_F(GrpcServerTest, BatchesAndStringsComeBackElementForElement) {
  start();
  for (const int rows : {10, 2, 10}) {
    ModelInferResponse response;
    ASSERT_TRUE(infer(good("batched", rows), &response).ok());
    EXPECT_EQ(response.outputs(0).shape(0), rows);
    EXPECT_EQ(response.raw_output_contents(0), good("batched", rows).raw_input_contents(0));
  }
  ModelInferRequest request = good("string");
  request.mutable_inputs(0)->set_datatype("BYTES");
  request.clear_raw_input_contents();
  for (const char* text : {"a", "", "ccc", "d"}) {
    request.mutable_inputs(0)->mutable_contents()->add_bytes_contents(text);
  }
  ModelInferResponse response;
  ASSERT_TRUE(infer(request, &response).ok());
  EXPECT_EQ(response.raw_output_contents(0), test::bytes_tensor({"a", "", "ccc", "d"}));
}

TEST_F(GrpcServerTest, MetadataSaysWhatIsThere) {
  start();
  grpc::ClientContext server_context, model_context, config_context, unknown_context;
  inference::ServerMetadataResponse server;
  ASSERT_TRUE(stub_->ServerMetadata(&server_context, {}, &server).ok());
  EXPECT_EQ(server.name(), "tutti");
  EXPECT_FALSE(server.version().empty());
  EXPECT_EQ(server.extensions_size(), 3);

  inference::ModelMetadataRequest request;
  request.set_name("batched");
  inference::ModelMetadataResponse model;
  ASSERT_TRUE(stub_->ModelMetadata(&model_context, request, &model).ok());
  EXPECT_EQ(model.platform(), "tutti_plan");
  ASSERT_EQ(model.versions_size(), 1);
  EXPECT_EQ(model.inputs(0).datatype(), "FP32");
  EXPECT_EQ(model.inputs(0).shape(0), -1);
  EXPECT_EQ(model.inputs(0).shape(1), 4);

  inference::ModelConfigRequest config_request;
  config_request.set_name("batched");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(stub_->ModelConfig(&config_context, config_request, &config).ok());
  EXPECT_EQ(config.config().max_batch_size(), 16);
  EXPECT_EQ(config.config().input(0).dims_size(), 1);

  request.set_name("nope");
  EXPECT_EQ(stub_->ModelMetadata(&unknown_context, request, &model).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServerTest, ReadinessOfModels) {
  start();
  const auto is_ready = [&](const std::string& name, const std::string& version) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    request.set_version(version);
    inference::ModelReadyResponse response;
    EXPECT_TRUE(stub_->ModelReady(&context, request, &response).ok());
    return response.ready();
  };
  EXPECT_TRUE(is_ready("identity", ""));
  EXPECT_TRUE(is_ready("identity", "1"));
  EXPECT_FALSE(is_ready("identity", "2"));
  EXPECT_FALSE(is_ready("nope", ""));
}

TEST_F(GrpcServerTest, HealthServiceFollowsReadiness) {
  start();
  const auto health = grpc::health::v1::Health::NewStub(channel_);
  const auto check = [&](const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status = health->Check(&context, request, &response);
    return std::pair(status.error_code(), response.status());
  };
  using Response = grpc::health::v1::HealthCheckResponse;
  EXPECT_EQ(check(""), std::pair(grpc::StatusCode::OK, Response::SERVING));
  EXPECT_EQ(check("inference.GRPCInferenceService"),
            std::pair(grpc::StatusCode::OK, Response::SERVING));
  EXPECT_EQ(check("nope").first, grpc::StatusCode::NOT_FOUND);
  server_->service().begin_shutdown();
  EXPECT_EQ(check(""), std::pair(grpc::StatusCode::OK, Response::NOT_SERVING));
}

TEST_F(GrpcServerTest, LoadUnloadAndIndex) {
  start(ControlMode::kExplicit);
  const auto load = [&](const std::string& name) {
    grpc::ClientContext context;
    inference::RepositoryModelLoadRequest request;
    request.set_model_name(name);
    inference::RepositoryModelLoadResponse response;
    return stub_->RepositoryModelLoad(&context, request, &response);
  };
  const auto unload = [&](const std::string& name) {
    grpc::ClientContext context;
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name(name);
    (*request.mutable_parameters())["unload_dependents"].set_bool_param(false);
    inference::RepositoryModelUnloadResponse response;
    return stub_->RepositoryModelUnload(&context, request, &response);
  };
  EXPECT_EQ(infer(good("batched")).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(load("batched").ok());
  EXPECT_TRUE(infer(good("batched")).ok());
  EXPECT_TRUE(unload("batched").ok());
  EXPECT_EQ(infer(good("batched")).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(load("nope").error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(unload("nope").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(load("../etc").error_code(), grpc::StatusCode::INVALID_ARGUMENT);

  grpc::ClientContext context, named_context;
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(stub_->RepositoryIndex(&context, {}, &index).ok());
  ASSERT_EQ(index.models_size(), 3);
  EXPECT_EQ(index.models(0).name(), "batched");
  EXPECT_EQ(index.models(0).state(), "UNAVAILABLE");
  EXPECT_EQ(index.models(0).reason(), "unloaded");
  EXPECT_EQ(index.models(1).state(), "READY");
  EXPECT_EQ(index.models(2).state(), "");
  inference::RepositoryIndexRequest named;
  named.set_repository_name("other");
  EXPECT_EQ(stub_->RepositoryIndex(&named_context, named, &index).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  expect_healthy();
}

TEST_F(GrpcServerTest, StatisticsCountEveryRequestOnce) {
  folder_.write("failing/1/model.plan", "failing");
  start();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(infer(good("batched", 3)).ok());
  for (int i = 0; i < 2; ++i) ASSERT_FALSE(infer(good("batched", 17)).ok());
  ModelInferRequest undecodable = good("batched");
  undecodable.mutable_inputs(0)->set_datatype("FLOAT");
  ASSERT_FALSE(infer(undecodable).ok());
  const inference::ModelStatistics stats = statistics("batched");
  EXPECT_EQ(stats.inference_count(), 15U);
  EXPECT_EQ(stats.execution_count(), 5U);
  EXPECT_EQ(stats.inference_stats().success().count(), 5U);
  EXPECT_EQ(stats.inference_stats().fail().count(), 3U);
  EXPECT_EQ(stats.inference_stats().queue().count(), 5U);
  EXPECT_EQ(stats.inference_stats().compute_infer().count(), 5U);
  EXPECT_GT(stats.last_inference(), 0U);
  ASSERT_EQ(stats.batch_stats_size(), 1);
  EXPECT_EQ(stats.batch_stats(0).batch_size(), 3U);
  const auto& sums = stats.inference_stats();
  EXPECT_LE(sums.queue().ns() + sums.compute_input().ns() + sums.compute_infer().ns() +
                sums.compute_output().ns(),
            sums.success().ns());

  const grpc::Status failed = infer(good("failing"));
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(failed.error_message(), "model 'failing': rank 1 of 2: lost its device");
  const inference::ModelStatistics bad = statistics("failing");
  EXPECT_EQ(bad.inference_stats().fail().count(), 1U);
  EXPECT_EQ(bad.inference_stats().success().count(), 0U);
  EXPECT_EQ(bad.inference_count(), 0U);
  EXPECT_EQ(bad.execution_count(), 0U);
}

TEST_F(GrpcServerTest, ThirtyTwoClientsAtOnceGetTheirOwnAnswers) {
  folder_.write("identity/config.pbtxt", "instance_group [ { kind: KIND_CPU count: 2 } ]");
  start();
  constexpr int kClients = 32;
  constexpr int kRequests = 25;
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < kRequests; ++i) {
        ModelInferRequest request = good();
        const std::vector<float> values = {static_cast<float>(c), static_cast<float>(i), 0, 1};
        request.set_raw_input_contents(0, raw(values));
        request.set_id(str_cat(c, "-", i));
        ModelInferResponse response;
        const grpc::Status status = infer(request, &response);
        if (!status.ok() || response.id() != request.id() ||
            response.raw_output_contents(0) != request.raw_input_contents(0)) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(statistics("identity").inference_stats().success().count(),
            static_cast<std::uint64_t>(kClients * kRequests));
}

TEST_F(GrpcServerTest, TensorsFarAboveFourMegabytesPass) {
  start();
  ModelInferRequest request = good("identity", 4 << 20);  // 64 MB
  ModelInferResponse response;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel(
      server_->grpc()->endpoint(), grpc::InsecureChannelCredentials(), arguments);
  const auto stub = GRPCInferenceService::NewStub(channel);
  grpc::ClientContext context;
  const grpc::Status status = stub->ModelInfer(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.raw_output_contents(0), request.raw_input_contents(0));
}

TEST_F(GrpcServerTest, ClientThatGoesAwayWhileQueuedIsDropped) {
  folder_.write("gated/1/model.plan", "gated");
  start();
  auto running = std::async(std::launch::async, [&] { return infer(good("gated")); });
  gate_->await_arrivals(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  ModelInferResponse response;
  EXPECT_EQ(stub_->ModelInfer(&context, good("gated"), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  while (statistics("gated").inference_stats().fail().count() == 0) std::this_thread::yield();
  gate_->open();
  EXPECT_TRUE(running.get().ok());
  EXPECT_EQ(statistics("gated").execution_count(), 1U);
}

TEST_F(GrpcServerTest, TimeoutParameterEndsTheWaitInTheQueue) {
  folder_.write("gated/1/model.plan", "gated");
  start();
  auto running = std::async(std::launch::async, [&] { return infer(good("gated")); });
  gate_->await_arrivals(1);
  ModelInferRequest hasty = good("gated");
  (*hasty.mutable_parameters())["timeout"].set_int64_param(50000);
  EXPECT_EQ(infer(hasty).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  gate_->open();
  EXPECT_TRUE(running.get().ok());
}

TEST_F(GrpcServerTest, QueueThatIsFullAnswersUnavailable) {
  folder_.write("gated/1/model.plan", "gated");
  start();
  std::vector<std::future<grpc::Status>> sent;
  sent.push_back(std::async(std::launch::async, [&] { return infer(good("gated")); }));
  gate_->await_arrivals(1);
  for (int i = 0; i < 70; ++i) {  // 64 fit
    sent.push_back(std::async(std::launch::async, [&] { return infer(good("gated")); }));
  }
  while (statistics("gated").inference_stats().fail().count() < 6) std::this_thread::yield();
  gate_->open();
  int refused = 0;
  for (auto& answer : sent) {
    const grpc::Status status = answer.get();
    if (!status.ok()) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
      EXPECT_THAT(status.error_message(), HasSubstr("the limit is 64"));
      ++refused;
    }
  }
  EXPECT_EQ(refused, 6);
  EXPECT_TRUE(infer(good("gated")).ok());
}

TEST_F(GrpcServerTest, WhatIsNotThereYetIsUnimplementedByName) {
  start();
  grpc::ClientContext c1, c2, c3, c4, c5, c6, c7, c8, c9;
  inference::SystemSharedMemoryStatusResponse r1;
  inference::SystemSharedMemoryRegisterResponse r2;
  inference::SystemSharedMemoryUnregisterResponse r3;
  inference::CudaSharedMemoryStatusResponse r4;
  inference::CudaSharedMemoryRegisterResponse r5;
  inference::CudaSharedMemoryUnregisterResponse r6;
  inference::TraceSettingResponse r7;
  inference::LogSettingsResponse r8;
  const std::pair<grpc::Status, const char*> answers[] = {
      {stub_->SystemSharedMemoryStatus(&c1, {}, &r1), "SystemSharedMemoryStatus"},
      {stub_->SystemSharedMemoryRegister(&c2, {}, &r2), "SystemSharedMemoryRegister"},
      {stub_->SystemSharedMemoryUnregister(&c3, {}, &r3), "SystemSharedMemoryUnregister"},
      {stub_->CudaSharedMemoryStatus(&c4, {}, &r4), "CudaSharedMemoryStatus"},
      {stub_->CudaSharedMemoryRegister(&c5, {}, &r5), "CudaSharedMemoryRegister"},
      {stub_->CudaSharedMemoryUnregister(&c6, {}, &r6), "CudaSharedMemoryUnregister"},
      {stub_->TraceSetting(&c7, {}, &r7), "TraceSetting"},
      {stub_->LogSettings(&c8, {}, &r8), "LogSettings"},
      {stub_->ModelStreamInfer(&c9)->Finish(), "ModelStreamInfer"},
  };
  for (const auto& [status, name] : answers) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << name;
    EXPECT_THAT(status.error_message(), HasSubstr(name));
  }
  expect_healthy();
}

TEST_F(GrpcServerTest, StopAnswersWhatIsInFlight) {
  folder_.write("gated/1/model.plan", "gated");
  start();
  auto running = std::async(std::launch::async, [&] { return infer(good("gated")); });
  gate_->await_arrivals(1);
  auto stopped = std::async(std::launch::async, [&] { server_->stop(std::chrono::minutes(1)); });
  while (server_->service().is_ready()) std::this_thread::yield();
  gate_->open();
  EXPECT_TRUE(running.get().ok());
  stopped.get();
  EXPECT_EQ(infer(good()).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServerTest, StopWithoutTimeCancelsWhatWaits) {
  folder_.write("gated/1/model.plan", "gated");
  start();
  auto running = std::async(std::launch::async, [&] { return infer(good("gated")); });
  gate_->await_arrivals(1);
  auto waiting = std::async(std::launch::async, [&] { return infer(good("gated")); });
  auto stopped = std::async(std::launch::async, [&] { server_->stop(std::chrono::seconds(0)); });
  EXPECT_FALSE(waiting.get().ok());
  gate_->open();
  running.get();
  stopped.get();
}

TEST_F(GrpcServerTest, PortInUseIsAnError) {
  start();
  GrpcOptions options;
  options.port = server_->grpc()->port();
  const auto second = GrpcServer::start(server_->service(), options, make_silent_log());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tutti::server
