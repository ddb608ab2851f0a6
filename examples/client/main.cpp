// Asks a model over gRPC: example_client HOST:PORT MODEL [INPUT=D,D...]
//
// Asks what the model takes, sends 0, 1, 2, .. as every FP32 input, prints the outputs that come
// back and what the server has counted. Only the protocol's messages and stubs are used, so the
// same works with any server of the KServe v2 protocol.
#include <grpc_service.grpc.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Shape = std::vector<std::int64_t>;
using Shapes = std::map<std::string, Shape>;

class Client {
 public:
  explicit Client(const std::string& address) {
    // Tensors are larger than gRPC's default of 4 MB.
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(std::numeric_limits<std::int32_t>::max());
    stub_ = inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  grpc::Status metadata(const std::string& model, inference::ModelMetadataResponse* response) {
    inference::ModelMetadataRequest request;
    request.set_name(model);
    grpc::ClientContext context;
    set_deadline(&context);
    return stub_->ModelMetadata(&context, request, response);
  }
  grpc::Status infer(const inference::ModelInferRequest& request,
                     inference::ModelInferResponse* response) {
    grpc::ClientContext context;
    set_deadline(&context);
    return stub_->ModelInfer(&context, request, response);
  }
  grpc::Status statistics(const std::string& model, inference::ModelStatisticsResponse* response) {
    inference::ModelStatisticsRequest request;
    request.set_name(model);
    grpc::ClientContext context;
    set_deadline(&context);
    return stub_->ModelStatistics(&context, request, response);
  }

 private:
  // When it passes, the server stops working on the request, on all ranks.
  static void set_deadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  }
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

// Sizes that the model leaves open are 1 where the caller names none.
Shape shape_of(const inference::ModelMetadataResponse::TensorMetadata& input,
               const Shapes& shapes) {
  const auto given = shapes.find(input.name());
  if (given != shapes.end()) return given->second;
  Shape shape(input.shape().begin(), input.shape().end());
  for (std::int64_t& size : shape) size = size < 0 ? 1 : size;
  return shape;
}

// The tensor's description goes among the inputs, its bytes behind them all, in the same order.
bool add_input(const inference::ModelMetadataResponse::TensorMetadata& input, const Shapes& shapes,
               inference::ModelInferRequest* request) {
  if (input.datatype() != "FP32") {
    std::cerr << "input '" << input.name() << "' is " << input.datatype()
              << ", this example sends FP32 only\n";
    return false;
  }
  auto* tensor = request->add_inputs();
  tensor->set_name(input.name());
  tensor->set_datatype(input.datatype());
  std::int64_t count = 1;
  for (const std::int64_t size : shape_of(input, shapes)) {
    tensor->add_shape(size);
    count *= size;
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  request->add_raw_input_contents(values.data(), values.size() * sizeof(float));
  return true;
}

void print_outputs(const inference::ModelInferResponse& response) {
  std::cout << response.model_name() << " version " << response.model_version() << '\n';
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    std::cout << output.name() << ' ' << output.datatype() << '[';
    for (int d = 0; d < output.shape_size(); ++d) std::cout << (d ? "," : "") << output.shape(d);
    std::cout << "]:";
    const std::string& bytes = response.raw_output_contents(i);
    if (output.datatype() == "FP32") {
      std::vector<float> values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
      for (const float value : values) std::cout << ' ' << value;
    } else {
      std::cout << ' ' << bytes.size() << " bytes";
    }
    std::cout << '\n';
  }
}

int fail(const char* call, const grpc::Status& status) {
  std::cerr << call << ": " << status.error_message() << '\n';
  return 1;
}

int run(const std::string& address, const std::string& model, const Shapes& shapes) {
  Client client(address);
  inference::ModelMetadataResponse metadata;
  if (const auto status = client.metadata(model, &metadata); !status.ok()) {
    return fail("ModelMetadata", status);
  }
  inference::ModelInferRequest request;
  request.set_model_name(model);
  request.set_id("example");
  for (const auto& input : metadata.inputs()) {
    if (!add_input(input, shapes, &request)) return 1;
  }
  inference::ModelInferResponse response;
  if (const auto status = client.infer(request, &response); !status.ok()) {
    return fail("ModelInfer", status);
  }
  print_outputs(response);
  inference::ModelStatisticsResponse statistics;
  if (const auto status = client.statistics(model, &statistics); !status.ok()) {
    return fail("ModelStatistics", status);
  }
  const auto& counted = statistics.model_stats(0).inference_stats();
  std::cout << "served " << counted.success().count() << ", failed " << counted.fail().count()
            << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " HOST:PORT MODEL [INPUT=D,D...]\n";
    return 2;
  }
  Shapes shapes;
  for (int i = 3; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    if (equals == std::string::npos) {
      std::cerr << "'" << text << "' is no INPUT=D,D...\n";
      return 2;
    }
    std::istringstream sizes(text.substr(equals + 1));
    for (std::string size; std::getline(sizes, size, ',');) {
      shapes[text.substr(0, equals)].push_back(std::atoll(size.c_str()));
    }
  }
  return run(argv[1], argv[2], shapes);
}
