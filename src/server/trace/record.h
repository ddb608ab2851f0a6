// What one traced request leaves behind, whatever becomes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/infer.h"
#include "server/scheduler/pending_request.h"
#include "server/trace/context.h"

namespace tutti::server {

struct TraceEvent {
  const char* name = "";  // Triton's: "HTTP_RECV_START"
  TimePoint time;
};

// A tensor's elements as text.
struct TracedTensor {
  const char* activity = "";  // Triton's: "TENSOR_QUEUE_INPUT"
  std::string name;
  std::string datatype;
  Dims shape;
  std::string data;
};

// A request's way through one model. An ensemble's steps have records of their own.
struct ModelTraceRecord {
  std::uint64_t id = 0;
  std::uint64_t parent_id = 0;  // of the ensemble's record; 0: none
  std::string model_name;
  std::int64_t model_version = 0;
  std::string request_id;
  RequestTimes times;  // what was not reached has no time
  TimePoint ended;
  bool is_cached = false;  // answered from the response cache
  Status status;
  std::vector<RankTimes> ranks;  // of the run, which other requests may have shared
  std::vector<TracedTensor> tensors;
};

struct TraceRecord {
  std::uint64_t id = 0;  // its first model record has the same
  std::optional<TraceContext> parent;
  const char* protocol = "";   // "grpc" or "http"
  std::string model_name;      // as asked for
  bool has_timestamps = true;  // else the tensors alone are wanted
  TimePoint started;
  TimePoint ended;
  Status status;
  std::vector<TraceEvent> events;        // of the front end
  std::vector<ModelTraceRecord> models;  // in the order in which they ended
};

}  // namespace tutti::server
