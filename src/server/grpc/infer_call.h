// One ModelInfer call, from the request message to the response message.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <stop_token>

#include "server/grpc/infer_messages.h"
#include "server/service.h"

namespace tutti::server {

// Owns itself: gRPC ends it through OnDone.
class InferCall final : public grpc::ServerUnaryReactor {
 public:
  // Tensors are read and written where they lie in the messages.
  static InferCall* start(InferenceService& service, std::shared_ptr<InferMessages> messages);

  void OnCancel() override { cancel_.request_stop(); }
  void OnDone() override { delete this; }

 private:
  InferCall() = default;
  ~InferCall() override = default;

  std::stop_source cancel_;
};

}  // namespace tutti::server
