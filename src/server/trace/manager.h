// Which requests are traced, and where their traces go: Triton's trace extension.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/log.h"
#include "server/trace/settings.h"
#include "server/trace/trace.h"

namespace tutti::server {

class OtlpExporter;

// Spans of mode opentelemetry; traces of mode triton.
struct TraceCounts {
  std::uint64_t exported = 0;
  std::uint64_t dropped = 0;
};

// Thread safe.
class TraceManager {
 public:
  TraceManager(TraceOptions options, Log log);
  ~TraceManager();  // what has been collected is written or sent

  // False while no request can be traced, so that front ends need not look further.
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }

  // Null for a request that is not traced. A caller that says it traces the request has its way
  // (mode opentelemetry); one that says it does not, too; the rate decides of all others.
  std::shared_ptr<RequestTrace> sample(const std::string& model, const char* protocol,
                                       std::optional<TraceContext> parent, TimePoint started);

  // The settings of a model, or with "" those of all that have none of their own. What a model's
  // settings leave open is as the global ones say. Errors: apply_trace_changes().
  Result<TraceChanges> update(const std::string& model, const TraceChanges& changes);

  TraceCounts counts() const;

 private:
  class Sampler;
  class FileWriter;
  // What was asked for, and what came of it.
  struct Scope {
    TraceChanges asked;  // empty values never stand here
    std::shared_ptr<Sampler> sampler;
  };

  std::shared_ptr<Sampler> find_locked(const std::string& model) const;
  Result<std::shared_ptr<Sampler>> make_sampler(const TraceSettings& below,
                                                const TraceChanges& asked) const;
  static void keep_count(Scope* scope);
  Status refresh_models_locked();
  void note_whether_on_locked();

  const TraceOptions options_;
  std::shared_ptr<OtlpExporter> exporter_;  // mode opentelemetry
  std::shared_ptr<FileWriter> files_;       // mode triton
  std::atomic<bool> is_on_{false};
  mutable std::mutex mutex_;
  // Under mutex_.
  TraceSettings defaults_;
  Scope global_;
  std::map<std::string, Scope, std::less<>> models_;
};

}  // namespace tutti::server
