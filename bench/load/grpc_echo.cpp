// The least that a gRPC server in C++ can do with ModelInfer: gives raw inputs back as outputs.
// What the server is compared with (bench/grpc_load.py).
//
//   grpc_echo    prints the port that it took; ends with its standard input
#include <grpc_service.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <limits>
#include <utility>

namespace {

class Echo final : public inference::GRPCInferenceService::CallbackService {
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const inference::ModelInferRequest* request,
                                       inference::ModelInferResponse* response) override {
    response->set_model_name(request->model_name());
    response->set_id(request->id());
    for (int i = 0; i < request->inputs_size(); ++i) {
      auto* output = response->add_outputs();
      output->set_name(request->outputs_size() > i ? request->outputs(i).name() : "y");
      output->set_datatype(request->inputs(i).datatype());
      *output->mutable_shape() = request->inputs(i).shape();
      response->add_raw_output_contents(request->raw_input_contents(i));
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int main() {
  Echo service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(std::numeric_limits<int>::max());
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("%d\n", port);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  server->Shutdown();
}
