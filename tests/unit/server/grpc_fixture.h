// The whole server in this process, asked through a C++ client.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "fakes.h"
#include "server/server.h"

namespace tutti::server::test {

class GrpcFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("identity/1/model.plan", "identity");
    folder_.write("string/1/model.plan", "string");
    folder_.write("batched/1/model.plan", "identity");
    folder_.write("batched/config.pbtxt", "max_batch_size: 16");
  }

  void start(ControlMode mode = ControlMode::kNone) {
    ServerOptions options;
    options.repository.paths = {folder_.path()};
    options.repository.control_mode = mode;
    if (mode == ControlMode::kExplicit) options.repository.startup_models = {"identity"};
    options.grpc->port = 0;
    options.queue_capacity = queue_capacity_;
    std::vector<std::unique_ptr<ModelBackend>> backends;
    backends.push_back(std::make_unique<FakeBackend>(gate_));
    auto server = Server::start(std::move(options), std::move(backends), make_silent_log());
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->grpc()->endpoint(), grpc::InsecureChannelCredentials());
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
  }

  static inference::ModelInferRequest good(const std::string& model = "identity", int rows = 1) {
    inference::ModelInferRequest request;
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

  grpc::Status infer(const inference::ModelInferRequest& request,
                     inference::ModelInferResponse* response = nullptr) {
    inference::ModelInferResponse ignored;
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
    inference::ModelInferResponse response;
    const grpc::Status status = infer(good(), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.raw_output_contents(0), good().raw_input_contents(0));
  }

  void expect_refused(const inference::ModelInferRequest& request, const std::string& part,
                      grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
    const grpc::Status status = infer(request);
    EXPECT_EQ(status.error_code(), code) << part << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr(part));
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
  std::size_t queue_capacity_ = 64;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

}  // namespace tutti::server::test
