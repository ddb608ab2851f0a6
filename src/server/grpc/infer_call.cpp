#include "server/grpc/infer_call.h"

#include <utility>

#include "server/grpc/codec.h"
#include "server/grpc/status.h"

namespace tutti::server {

InferCall* InferCall::start(InferenceService& service, const inference::ModelInferRequest* request,
                            inference::ModelInferResponse* response) {
  auto* call = new InferCall();
  const TimePoint arrived = std::chrono::steady_clock::now();
  Result<InferRequest> decoded = decode_request(*request);
  if (!decoded.ok()) {
    service.note_refused(request->model_name(), request->model_version(), arrived);
    call->Finish(to_grpc(decoded.status()));
    return call;
  }
  decoded->cancel = call->cancel_;
  service.infer(*std::move(decoded), std::make_shared<ResponseSink>(response),
                [call, response](Result<InferResponse> result) {
                  if (result.ok()) encode_response(*result, response);
                  call->Finish(to_grpc(result.status()));
                });
  return call;
}

}  // namespace tutti::server
