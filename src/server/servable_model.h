// What the server knows of anything that answers requests: a plan, later an ensemble or a diffusion
// pipeline.
#pragma once

#include <chrono>
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
  // Since its group was made or rebuilt: in runs, and of it in exchanges (0 where only a profile of
  // the device can tell).
  std::chrono::nanoseconds run{0};
  std::chrono::nanoseconds exchange{0};
};

struct InstanceStatistics {
  std::int64_t rebuilds = 0;  // of its ranks, after failures
  std::vector<RankStatistics> ranks;
};

// 1 - mean / largest of the ranks' time outside exchanges: 0 when all do the same, towards 1 when
// one does all. Nothing for one rank, before the first run, and where exchanges cannot be told.
std::optional<double> rank_imbalance(const InstanceStatistics& instance);

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
