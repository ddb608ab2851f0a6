#include "server/grpc/infer_call.h"

#include <utility>

#include "server/grpc/codec.h"
#include "server/grpc/status.h"

namespace tutti::server {

InferCall* InferCall::start(InferenceService& service, std::shared_ptr<InferMessages> messages) {
  auto* call = new InferCall();
  const TimePoint arrived = std::chrono::steady_clock::now();
  const inference::ModelInferRequest& request = *messages->request();
  Result<InferRequest> decoded = decode_request(request, messages);
  if (!decoded.ok()) {
    service.note_refused(request.model_name(), request.model_version(), arrived);
    call->Finish(to_grpc(decoded.status()));
    return call;
  }
  decoded->cancel = call->cancel_.get_token();
  auto sink = std::make_shared<ResponseSink>(
      std::shared_ptr<inference::ModelInferResponse>(messages, messages->response()));
  service.infer(*std::move(decoded), std::move(sink),
                [call, messages = std::move(messages)](Result<InferResponse> result) {
                  if (result.ok()) encode_response(*result, messages->response());
                  call->Finish(to_grpc(result.status()));
                });
  return call;
}

}  // namespace tutti::server
