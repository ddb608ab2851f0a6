// What the server knows of anything that answers requests: a plan, later an ensemble or a diffusion
// pipeline.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "server/infer.h"

namespace tutti::server {

// What one execution did; the two times split it into input, compute and output phases.
struct InferResult {
  std::vector<OutputDesc> outputs;  // as many as asked for, in that order
  TimePoint inputs_ready;
  TimePoint outputs_started;
  // When its turn came, where it waited for a request before it inside of the model.
  std::optional<TimePoint> started = std::nullopt;
};

struct RankStatistics {
  std::int64_t memory_bytes = 0;  // of its device
  std::int64_t sent_bytes = 0;    // to other ranks, in exchanges
};

struct InstanceStatistics {
  std::vector<RankStatistics> ranks;
};

// One instance of one model version.
class ServableModel {
 public:
  virtual ~ServableModel() = default;

  // Runs a request that passed the door: every input is there, with the declared dtype, a shape
  // that fits and as many bytes; `outputs` lists distinct known names and is not empty. Sizes that
  // only the model can check give INVALID_ARGUMENT.
  // By as many threads at a time as concurrency() says.
  virtual Result<InferResult> infer(const InferRequest& request,
                                    const std::shared_ptr<OutputSink>& sink) = 0;

  // Requests that it is worth giving at a time: more than one where what comes next can be made
  // ready while another one runs.
  virtual int concurrency() const { return 1; }

  // The next request has a chance. From any thread.
  virtual bool is_ready() const { return true; }

  // From any thread.
  virtual InstanceStatistics statistics() const { return {}; }
};

}  // namespace tutti::server
