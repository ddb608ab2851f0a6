// ModelInfer's messages as bytes: large tensors are neither parsed nor serialised, so that they are
// copied once on the way in and not at all on the way out. Field numbers and wire types: protobuf's
// encoding guide.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <grpc_service.pb.h>
#include <grpcpp/support/byte_buffer.h>

#include <limits>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/buffer_sink.h"
#include "server/byte_buffer.h"

namespace tutti::server {

// A ModelInferRequest whose raw contents stand apart.
class WireRequest {
 public:
  // Takes the memory of `bytes`. INVALID_ARGUMENT when they are no such message, RESOURCE_EXHAUSTED
  // when there is no memory for a tensor. The request is there in any case: what could be read of
  // its name says whose failure it is.
  Status read(grpc::ByteBuffer* bytes);

  // Without raw_input_contents.
  const inference::ModelInferRequest& fields() const { return fields_; }
  // raw_input_contents in their order; valid as long as the request.
  std::span<const std::span<const std::byte>> raw_contents() const { return raw_; }

 private:
  Status read_fields(std::string* rest);  // `rest`: those that are read when all are there
  Status read_raw(google::protobuf::io::CodedInputStream* in);

  inference::ModelInferRequest fields_;
  std::vector<std::span<const std::byte>> raw_;
  std::list<ByteBuffer> joined_;  // what came in pieces
  grpc::ByteBuffer in_place_;     // what did not
  bool has_in_place_ = false;
};

// `message` and, behind it, raw_output_contents: the sink's outputs by reference, as many as
// `message` has outputs. Those in shared memory are empty: clients count them.
grpc::ByteBuffer write_response(const inference::ModelInferResponse& message,
                                const std::shared_ptr<const BufferSink>& sink);
// The same as infer_response of a ModelStreamInferResponse.
grpc::ByteBuffer write_stream_response(const inference::ModelInferResponse& message,
                                       const std::shared_ptr<const BufferSink>& sink);
// Any message as it is.
grpc::ByteBuffer write_message(const google::protobuf::MessageLite& message);

// Names, shapes and lengths travel too: they are left a megabyte of gRPC's 2^31 - 1 bytes.
inline constexpr std::size_t kMostOutputBytes =
    static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) - (std::size_t{1} << 20);

}  // namespace tutti::server
