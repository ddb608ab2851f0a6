#include "server/grpc/infer_call.h"

#include <utility>

#include "server/grpc/codec.h"
#include "server/grpc/status.h"
#include "server/grpc/trace_context.h"

namespace tutti::server {

InferCall* InferCall::start(InferenceService& service, const grpc::CallbackServerContext& context,
                            std::shared_ptr<InferMessages> messages) {
  auto* call = new InferCall();
  const TimePoint arrived = std::chrono::steady_clock::now();
  const inference::ModelInferRequest& request = *messages->request();
  const auto trace = sample_trace(service.traces(), context, request.model_name(), arrived);
  Result<InferRequest> decoded = decode_request(request, messages);
  if (!decoded.ok()) {
    service.note_refused(request.model_name(), request.model_version(), arrived);
    call->finish(trace, decoded.status());
    return call;
  }
  decoded->cancel = call->cancel_.get_token();
  if (trace) decoded->trace = trace->start_model();
  auto sink = std::make_shared<ResponseSink>(
      std::shared_ptr<inference::ModelInferResponse>(messages, messages->response()));
  service.infer(*std::move(decoded), std::move(sink),
                [call, messages = std::move(messages), trace](Result<InferResponse> result) {
                  if (result.ok()) encode_response(*result, messages->response());
                  call->finish(trace, result.status());
                });
  return call;
}

void InferCall::finish(const std::shared_ptr<RequestTrace>& trace, const Status& status) {
  if (trace) {
    trace->answered(status);
    sending_.emplace(trace, "GRPC_SEND_START", "GRPC_SEND_END");
  }
  Finish(to_grpc(status));
}

}  // namespace tutti::server
