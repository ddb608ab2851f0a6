// One ModelInfer call, from the request's bytes to the response's.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>
#include <stop_token>

#include "server/service.h"
#include "server/trace/trace.h"

namespace tutti::server {

// Owns itself: gRPC ends it through OnDone.
class InferCall final : public grpc::ServerUnaryReactor {
 public:
  // Takes the request's bytes and fills the response's: both are gRPC's, good until the end of the
  // call.
  static InferCall* start(InferenceService& service, const grpc::CallbackServerContext& context,
                          grpc::ByteBuffer* request, grpc::ByteBuffer* response);

  void OnCancel() override { cancel_.request_stop(); }
  void OnDone() override { delete this; }

 private:
  void finish(const std::shared_ptr<RequestTrace>& trace, const Status& status);

  InferCall() = default;
  ~InferCall() override = default;

  std::stop_source cancel_;
  std::optional<TracedSending> sending_;  // while the answer is on its way
};

}  // namespace tutti::server
