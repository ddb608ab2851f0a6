// One ModelInfer call, from the request message to the response message.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>
#include <stop_token>

#include "server/grpc/infer_messages.h"
#include "server/service.h"
#include "server/trace/trace.h"

namespace tutti::server {

// Owns itself: gRPC ends it through OnDone.
class InferCall final : public grpc::ServerUnaryReactor {
 public:
  // Tensors are read and written where they lie in the messages.
  static InferCall* start(InferenceService& service, const grpc::CallbackServerContext& context,
                          std::shared_ptr<InferMessages> messages);

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
