// Trace settings under Triton's names, and the flags that set them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tutti::server {

enum class TraceMode { kTriton, kOpenTelemetry };
std::string_view trace_mode_name(TraceMode mode);  // "triton"

struct TraceSettings {
  bool timestamps = false;  // levels; none: OFF
  bool tensors = false;
  std::uint32_t rate = 1000;        // every so many requests one is traced; 0: none
  std::int32_t count = -1;          // traces still to collect; -1: no end
  std::uint32_t log_frequency = 0;  // traces a file; 0: one file
  std::string file;
};

// PEM texts; TLS with the machine's own authorities where there is none.
struct OtlpTls {
  std::string certificate;         // of the authorities that the collector's certificate is from
  std::string client_certificate;  // for a collector that wants to know its clients
  std::string client_key;
  bool operator==(const OtlpTls&) const = default;
};

// How OpenTelemetry traces are exported: OTLP over gRPC, in batches.
struct OtlpOptions {
  std::string url = "localhost:4317";  // behind https://: with TLS
  OtlpTls tls;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case; never answered
  std::map<std::string, std::string> resource = {{"service.name", "tutti"}};
  std::size_t max_queue_size = 2048;  // spans that wait; more are dropped and counted
  std::chrono::milliseconds schedule_delay{5000};
  std::size_t max_export_batch_size = 512;
  bool operator==(const OtlpOptions&) const = default;
};

bool uses_tls(const OtlpOptions& otlp);
std::string_view otlp_target(const OtlpOptions& otlp);  // "localhost:4317"

struct TraceOptions {
  TraceMode mode = TraceMode::kTriton;
  TraceSettings settings;
  OtlpOptions otlp;
};

// The values of --trace-config: "rate=100", "triton,file=trace.json",
// "opentelemetry,url=host:4317". INVALID_ARGUMENT names the setting.
Result<TraceOptions> parse_trace_options(const std::vector<std::string>& configs);

// A setting by name with its values; no value gives it back to what it falls back on.
using TraceChanges = std::map<std::string, std::vector<std::string>>;

// INVALID_ARGUMENT for what is no setting or no value of one; UNIMPLEMENTED for trace_file and
// trace_mode, which are for the command line. Settings without values are left out.
Status apply_trace_changes(const TraceChanges& changes, TraceSettings* settings);

// All settings, as they are answered.
TraceChanges trace_values(TraceMode mode, const TraceSettings& settings, const OtlpOptions& otlp);

}  // namespace tutti::server
