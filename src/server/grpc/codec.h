// KServe's protobuf messages to and from the service's types.
#pragma once

#include <grpc_service.pb.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/infer.h"
#include "server/service.h"

namespace tutti::server {

// Raw bytes and most numeric `contents` stay in `message`: the inputs point there, and the request
// holds `owner`, which keeps the message alive. INVALID_ARGUMENT: `contents` beside
// `raw_input_contents`, raw buffers that are not one an input, contents of another kind than the
// datatype's, values that do not fit.
Result<InferRequest> decode_request(const inference::ModelInferRequest& message,
                                    std::shared_ptr<const void> owner);

// Lets outputs be written straight into raw_output_contents of a response.
class ResponseSink : public OutputSink {
 public:
  explicit ResponseSink(std::shared_ptr<inference::ModelInferResponse> message)
      : message_(std::move(message)) {}
  // RESOURCE_EXHAUSTED when all outputs together pass what a gRPC message can hold.
  Result<std::byte*> allocate(std::size_t position, const OutputDesc& output,
                              std::size_t bytes) override;

 private:
  std::shared_ptr<inference::ModelInferResponse> message_;
  std::size_t total_ = 0;
};

// All but the raw contents, which the sink has filled.
void encode_response(const InferResponse& response, inference::ModelInferResponse* message);

}  // namespace tutti::server
