// Where a trace comes from: W3C trace context, https://www.w3.org/TR/trace-context/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::server {

using TraceId = std::array<std::uint8_t, 16>;
using SpanId = std::array<std::uint8_t, 8>;

// What a caller says of the trace that its request belongs to.
struct TraceContext {
  TraceId trace_id{};
  SpanId span_id{};         // the caller's span
  bool is_sampled = false;  // the caller keeps its part
  std::string state;        // tracestate, passed on as it is
};

// Headers `traceparent` and `tracestate`. Nothing for what is no traceparent: the request then
// begins a trace of its own, as the recommendation has it.
std::optional<TraceContext> parse_trace_context(std::string_view traceparent,
                                                std::string_view tracestate);

// Random, never all zeros.
TraceId make_trace_id();
SpanId make_span_id();

}  // namespace tutti::server
