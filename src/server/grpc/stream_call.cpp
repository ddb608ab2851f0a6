#include "server/grpc/stream_call.h"

#include <utility>

#include "server/grpc/codec.h"
#include "server/grpc/status.h"
#include "server/grpc/trace_context.h"
#include "server/grpc/wire.h"

namespace tutti::server {
namespace {

// Requests of one stream that wait or run at a time: beyond it the client is made to wait.
constexpr std::size_t kMostInFlight = 64;

grpc::ByteBuffer error_answer(const std::string& id, const Status& status) {
  inference::ModelStreamInferResponse response;
  response.set_error_message(to_grpc(status).error_message());
  response.mutable_infer_response()->set_id(id);
  return write_message(response);
}

}  // namespace

void StreamCall::read() {
  reading_.Clear();
  StartRead(&reading_);
}

// The change and what follows from it are one step: between two, another thread could end the call.
template <class Change>
void StreamCall::go_on(Change change) {
  Response next;
  bool reads = false;
  bool finishes = false;
  bool is_over = false;
  {
    const std::lock_guard lock(mutex_);
    change();
    if (!is_writing_ && !answers_.empty()) {
      is_writing_ = true;
      next = answers_.front();
    }
    // Of a broken one neither: threads that are not gRPC's answer its requests, and the call is
    // theirs no longer than these are in flight.
    const bool takes_more = has_more_requests_ && !is_stopping_ && !is_broken_;
    if (!is_reading_ && takes_more && in_flight_ < kMostInFlight) {
      is_reading_ = true;
      reads = true;
    }
    if (!takes_more && in_flight_ == 0 && !is_finished_) {
      is_finished_ = true;
      finishes = true;
    }
    is_over = !has_more_requests_ || is_broken_;
  }
  // Outside the lock. After Finish() nothing of this may be touched.
  if (next.message) StartWrite(next.message.get());
  if (reads) read();
  if (finishes) {
    Finish(is_over ? grpc::Status::OK : to_grpc(unavailable("the server is stopping")));
  }
}

StreamCall* StreamCall::start(InferenceService& service, std::optional<TraceContext> parent) {
  auto* call = new StreamCall(service, std::move(parent));
  call->read();
  // Not before: it may be called at once. An open stream must not hold up a server that stops.
  call->on_stop_.emplace(service.stopping(),
                         [call] { call->go_on([call] { call->is_stopping_ = true; }); });
  return call;
}

void StreamCall::OnReadDone(bool ok) {
  if (!ok) {
    return go_on([&] {
      is_reading_ = false;
      has_more_requests_ = false;
    });
  }
  grpc::ByteBuffer bytes;
  bytes.Swap(&reading_);
  {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return;  // it came while the server ended the call
    ++in_flight_;
  }
  infer(std::move(bytes));
  // Only now the next one: requests of a stream queue in their order.
  go_on([&] { is_reading_ = false; });
}

void StreamCall::infer(grpc::ByteBuffer bytes) {
  const TimePoint arrived = std::chrono::steady_clock::now();
  auto wire = std::make_shared<WireRequest>();
  const Status read = wire->read(&bytes);
  const inference::ModelInferRequest& fields = wire->fields();
  const std::string id = fields.id();
  const auto trace = sample_trace(service_.traces(), parent_, fields.model_name(), arrived);
  Result<InferRequest> request = read.ok() ? decode_request(wire) : read;
  if (!request.ok()) {
    service_.note_refused(fields.model_name(), fields.model_version(), arrived);
    return answer(error_answer(id, request.status()), trace, request.status());
  }
  wire.reset();  // the request's alone from here on: its memory goes with it
  request->cancel = cancel_.get_token();
  if (trace) request->trace = trace->start_model();
  auto sink = std::make_shared<BufferSink>(kMostOutputBytes);
  service_.infer(*std::move(request), sink, [this, id, sink, trace](Result<InferResponse> result) {
    if (!result.ok()) return answer(error_answer(id, result.status()), trace, result.status());
    // One response a request: each is its request's last.
    result->parameters["triton_final_response"] = true;
    answer(write_stream_response(encode_response(*result), sink), trace, Status());
  });
}

void StreamCall::answer(grpc::ByteBuffer message, const std::shared_ptr<RequestTrace>& trace,
                        const Status& status) {
  Response response{std::make_shared<grpc::ByteBuffer>(std::move(message)), nullptr};
  if (trace) {
    trace->answered(status);
    response.sending = std::make_shared<TracedSending>(trace, "GRPC_SEND_START", "GRPC_SEND_END");
  }
  go_on([&] {
    if (is_broken_) {
      --in_flight_;
    } else {
      answers_.push_back(std::move(response));
    }
  });
}

void StreamCall::OnWriteDone(bool ok) {
  if (!ok) cancel_.request_stop();
  go_on([&] {
    is_writing_ = false;
    answers_.pop_front();
    --in_flight_;
    if (!ok) {
      is_broken_ = true;
      in_flight_ -= answers_.size();
      answers_.clear();
    }
  });
}

}  // namespace tutti::server
