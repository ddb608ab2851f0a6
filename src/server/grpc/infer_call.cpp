#include "server/grpc/infer_call.h"

#include <utility>

#include "server/grpc/codec.h"
#include "server/grpc/status.h"
#include "server/grpc/trace_context.h"
#include "server/grpc/wire.h"

namespace tutti::server {

InferCall* InferCall::start(InferenceService& service, const grpc::CallbackServerContext& context,
                            grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  auto* call = new InferCall();
  const TimePoint arrived = std::chrono::steady_clock::now();
  auto wire = std::make_shared<WireRequest>();
  const Status read = wire->read(request);
  const inference::ModelInferRequest& fields = wire->fields();
  const auto trace = sample_trace(service.traces(), context, fields.model_name(), arrived);
  Result<InferRequest> decoded = read.ok() ? decode_request(wire) : read;
  if (!decoded.ok()) {
    service.note_refused(fields.model_name(), fields.model_version(), arrived);
    call->finish(trace, decoded.status());
    return call;
  }
  wire.reset();  // the request's alone from here on: its memory goes with it
  decoded->cancel = call->cancel_.get_token();
  if (trace) decoded->trace = trace->start_model();
  auto sink = std::make_shared<BufferSink>(kMostOutputBytes);
  service.infer(*std::move(decoded), sink,
                [call, response, sink, trace](Result<InferResponse> result) {
                  if (result.ok()) *response = write_response(encode_response(*result), sink);
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
