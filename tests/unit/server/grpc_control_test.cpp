// All calls but ModelInfer, and the server's start and end.
#include <health.grpc.pb.h>

#include <future>
#include <thread>

#include "grpc_fixture.h"

namespace tutti::server {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using ::testing::HasSubstr;

class GrpcControlTest : public test::GrpcFixture {};

TEST_F(GrpcControlTest, MetadataSaysWhatIsThere) {
  start();
  grpc::ClientContext server_context, model_context, config_context, unknown_context;
  inference::ServerMetadataResponse server;
  ASSERT_TRUE(stub_->ServerMetadata(&server_context, {}, &server).ok());
  EXPECT_EQ(server.name(), "tutti");
  EXPECT_FALSE(server.version().empty());
  EXPECT_EQ(server.extensions_size(), 10);

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

TEST_F(GrpcControlTest, ReadinessOfModels) {
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

TEST_F(GrpcControlTest, ModelWhoseRanksAreDownIsNotReadyAndTheOthersServe) {
  folder_.write("failing/1/model.plan", "failing");
  start();
  grpc::ClientContext model_context, server_context;
  inference::ModelReadyRequest request;
  request.set_name("failing");
  inference::ModelReadyResponse model;
  inference::ServerReadyResponse server;
  ASSERT_TRUE(stub_->ModelReady(&model_context, request, &model).ok());
  ASSERT_TRUE(stub_->ServerReady(&server_context, {}, &server).ok());
  EXPECT_FALSE(model.ready());
  EXPECT_FALSE(server.ready());
  EXPECT_TRUE(infer(good()).ok());
}

TEST_F(GrpcControlTest, HealthServiceFollowsReadiness) {
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

TEST_F(GrpcControlTest, HealthIsWatchedUntilTheServerStops) {
  start();
  const auto health = grpc::health::v1::Health::NewStub(channel_);
  using Response = grpc::health::v1::HealthCheckResponse;
  grpc::health::v1::HealthCheckRequest request;
  grpc::ClientContext context;
  const auto stream = health->Watch(&context, request);
  Response response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.status(), Response::SERVING);

  request.set_service("nope");
  grpc::ClientContext unknown_context;
  const auto unknown = health->Watch(&unknown_context, request);
  ASSERT_TRUE(unknown->Read(&response));
  EXPECT_EQ(response.status(), Response::SERVICE_UNKNOWN);
  // One that goes away is nobody's business.
  unknown_context.TryCancel();
  EXPECT_FALSE(unknown->Read(&response));
  EXPECT_EQ(unknown->Finish().error_code(), grpc::StatusCode::CANCELLED);

  server_->service().begin_shutdown();
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.status(), Response::NOT_SERVING);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcControlTest, LoadUnloadAndIndex) {
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

TEST_F(GrpcControlTest, StatisticsCountEveryRequestOnce) {
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

TEST_F(GrpcControlTest, CudaSharedMemoryIsOffUnlessAllowed) {
  start();
  grpc::ClientContext c1, c2, c3;
  inference::CudaSharedMemoryStatusResponse regions;
  inference::CudaSharedMemoryRegisterResponse r2;
  inference::CudaSharedMemoryUnregisterResponse r3;
  EXPECT_TRUE(stub_->CudaSharedMemoryStatus(&c1, {}, &regions).ok());
  EXPECT_TRUE(regions.regions().empty());
  for (const grpc::Status& status : {stub_->CudaSharedMemoryRegister(&c2, {}, &r2),
                                     stub_->CudaSharedMemoryUnregister(&c3, {}, &r3)}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_THAT(status.error_message(), HasSubstr("--allow-client-shm"));
  }
  expect_healthy();
}

TEST_F(GrpcControlTest, AnOpenStreamDoesNotHoldUpAStop) {
  start();
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Write(good()));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "42");
  server_->stop(std::chrono::hours(1));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcControlTest, StopAnswersWhatIsInFlight) {
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

TEST_F(GrpcControlTest, StopWithoutTimeCancelsWhatWaits) {
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

TEST_F(GrpcControlTest, PortInUseIsAnError) {
  start();
  GrpcOptions options;
  options.port = server_->grpc()->port();
  const auto second = GrpcServer::start(server_->service(), options, make_silent_log());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tutti::server
