// The messages of ModelInfer calls, owned so that a rank which comes back late finds them still
// there.
#pragma once

#include <grpc_service.pb.h>
#include <grpcpp/support/message_allocator.h>

#include <memory>

namespace tutti::server {

// gRPC holds one reference from AllocateMessages to Release; tensors that point into the messages
// hold others.
class InferMessages final
    : public grpc::MessageHolder<inference::ModelInferRequest, inference::ModelInferResponse>,
      public std::enable_shared_from_this<InferMessages> {
 public:
  static InferMessages* create() {
    auto messages = std::make_shared<InferMessages>();
    messages->self_ = messages;
    return messages.get();
  }
  InferMessages() {
    set_request(&request_);
    set_response(&response_);
  }
  void Release() override {
    const auto last = std::move(self_);  // may delete this, after the move
  }

 private:
  inference::ModelInferRequest request_;
  inference::ModelInferResponse response_;
  std::shared_ptr<InferMessages> self_;
};

class InferMessageAllocator final
    : public grpc::MessageAllocator<inference::ModelInferRequest, inference::ModelInferResponse> {
 public:
  InferMessages* AllocateMessages() override { return InferMessages::create(); }
};

}  // namespace tutti::server
