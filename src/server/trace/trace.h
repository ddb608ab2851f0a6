// One sampled request while it is under way. Requests that are not sampled have none: null
// pointers.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "server/trace/record.h"

namespace tutti::server {

class ModelTrace;

// Thread safe. When nobody holds it any more, the record is delivered.
class RequestTrace : public std::enable_shared_from_this<RequestTrace> {
 public:
  using Deliver = std::function<void(TraceRecord)>;
  RequestTrace(TraceRecord record, bool wants_tensors, Deliver deliver)
      : record_(std::move(record)), wants_tensors_(wants_tensors), deliver_(std::move(deliver)) {}
  ~RequestTrace();
  RequestTrace(const RequestTrace&) = delete;
  RequestTrace& operator=(const RequestTrace&) = delete;

  bool wants_tensors() const { return wants_tensors_; }
  void note(const char* event, TimePoint time);
  // What the client is told.
  void answered(const Status& status);
  // The way through the model that was asked for.
  std::shared_ptr<ModelTrace> start_model();

 private:
  friend class ModelTrace;
  void add(ModelTraceRecord record);

  std::mutex mutex_;
  TraceRecord record_;  // under mutex_
  const bool wants_tensors_;
  const Deliver deliver_;
};

// A traced request's way through one model. Used by one thread at a time, but for child().
class ModelTrace {
 public:
  ModelTrace(std::shared_ptr<RequestTrace> request, std::uint64_t id, std::uint64_t parent_id);
  ~ModelTrace();  // its record becomes part of the request's
  ModelTrace(const ModelTrace&) = delete;
  ModelTrace& operator=(const ModelTrace&) = delete;

  std::shared_ptr<ModelTrace> child() const;  // of a step of this ensemble
  bool wants_tensors() const { return request_->wants_tensors(); }
  void add_tensor(const char* activity, const std::string& name, DType dtype, const Dims& shape,
                  std::span<const std::byte> data);
  ModelTraceRecord& record() { return record_; }

 private:
  const std::shared_ptr<RequestTrace> request_;
  ModelTraceRecord record_;
};

// Held by an answer that is on its way out: marks when it leaves and when it has left.
class TracedSending {
 public:
  TracedSending(std::shared_ptr<RequestTrace> trace, const char* begin, const char* end);
  ~TracedSending();
  TracedSending(const TracedSending&) = delete;
  TracedSending& operator=(const TracedSending&) = delete;

 private:
  const std::shared_ptr<RequestTrace> trace_;
  const char* const end_;
};

std::uint64_t next_trace_id();  // of this process, from 1

}  // namespace tutti::server
