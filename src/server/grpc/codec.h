// KServe's protobuf messages to and from the service's types.
#pragma once

#include <grpc_service.pb.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/infer.h"
#include "server/service.h"

namespace tutti::server {

// Where raw bytes and numeric `contents` are concerned, the inputs point into `message`, which must
// outlive the request. INVALID_ARGUMENT: `contents` beside `raw_input_contents`, raw buffers that
// are not one an input, contents of another kind than the datatype's, values that do not fit.
Result<InferRequest> decode_request(const inference::ModelInferRequest& message);

// Lets outputs be written straight into raw_output_contents of a response, which must outlive it.
class ResponseSink : public OutputSink {
 public:
  explicit ResponseSink(inference::ModelInferResponse* message) : message_(message) {}
  // RESOURCE_EXHAUSTED when all outputs together pass what a gRPC message can hold.
  Result<std::byte*> allocate(std::size_t position, const OutputDesc& output,
                              std::size_t bytes) override;

 private:
  inference::ModelInferResponse* message_;
  std::size_t total_ = 0;
};

// All but the raw contents, which the sink has filled.
void encode_response(const InferResponse& response, inference::ModelInferResponse* message);

void encode_metadata(const ModelMetadata& metadata, inference::ModelMetadataResponse* message);
void encode_statistics(const std::vector<ModelStatisticsEntry>& entries,
                       inference::ModelStatisticsResponse* message);

}  // namespace tutti::server
