// One ModelStreamInfer call: requests come and answers go as they are ready, errors among them.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "server/service.h"
#include "server/trace/trace.h"

namespace tutti::server {

// Owns itself: gRPC ends it through OnDone, after every request it read has been answered. A
// request that fails is answered by an error message and its id; the stream goes on.
class StreamCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  static StreamCall* start(InferenceService& service, std::optional<TraceContext> parent);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancel_.request_stop(); }
  void OnDone() override { delete this; }

 private:
  // The trace, where there is one, as long as the answer is on its way.
  struct Response {
    std::shared_ptr<grpc::ByteBuffer> message;
    std::shared_ptr<TracedSending> sending;
  };

  StreamCall(InferenceService& service, std::optional<TraceContext> parent)
      : service_(service), parent_(std::move(parent)) {}
  ~StreamCall() override = default;

  void read();
  void infer(grpc::ByteBuffer bytes);
  void answer(grpc::ByteBuffer message, const std::shared_ptr<RequestTrace>& trace,
              const Status& status);
  // Makes a change under the mutex, then writes, reads or finishes, whatever is due.
  template <class Change>
  void go_on(Change change);

  InferenceService& service_;
  const std::optional<TraceContext> parent_;  // of all its requests
  std::stop_source cancel_;
  grpc::ByteBuffer reading_;

  std::mutex mutex_;
  std::deque<Response> answers_;   // under mutex_: the first is being written
  std::size_t in_flight_ = 0;      // under mutex_: read and not yet answered in full
  bool is_reading_ = true;         // under mutex_
  bool is_writing_ = false;        // under mutex_
  bool has_more_requests_ = true;  // under mutex_: the client has not said its last
  bool is_broken_ = false;         // under mutex_: nobody reads the answers
  bool is_stopping_ = false;       // under mutex_: takes no more requests
  bool is_finished_ = false;       // under mutex_

  // Last: it goes first, and waits for a stop that is just being told, which uses the others.
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

}  // namespace tutti::server
