// ModelInfer: good requests, bad ones, many at once, and those that nobody waits for.
#include <grpcpp/generic/generic_stub.h>

#include <future>
#include <thread>

#include "grpc_fixture.h"

namespace tutti::server {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using test::raw;
using ::testing::HasSubstr;

class GrpcServerTest : public test::GrpcFixture {};

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
  grpc::Slice slice(
      std::string("\x0a\x7f"
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
  const auto channel = grpc::CreateCustomChannel(server_->grpc()->endpoint(),
                                                 grpc::InsecureChannelCredentials(), arguments);
  const auto stub = inference::GRPCInferenceService::NewStub(channel);
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

}  // namespace
}  // namespace tutti::server
