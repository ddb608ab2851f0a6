// One ModelInfer call, from the request message to the response message.
#pragma once

#include <grpc_service.pb.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "server/cancel.h"
#include "server/service.h"

namespace tutti::server {

// Owns itself: gRPC ends it through OnDone.
class InferCall final : public grpc::ServerUnaryReactor {
 public:
  // `request` and `response` live until OnDone, so the tensors stay where they are.
  static InferCall* start(InferenceService& service, const inference::ModelInferRequest* request,
                          inference::ModelInferResponse* response);

  void OnCancel() override { cancel_->cancel(); }
  void OnDone() override { delete this; }

 private:
  InferCall() = default;
  ~InferCall() override = default;

  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
};

}  // namespace tutti::server
