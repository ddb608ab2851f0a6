// Traces as OpenTelemetry's spans, https://opentelemetry.io/docs/specs/otlp/.
#pragma once

#include <opentelemetry/proto/trace/v1/trace.pb.h>

#include <cstddef>

#include "server/trace/record.h"

namespace tutti::server {

// InferRequest > the model > queue, compute > compute_input, compute_infer > rank N,
// compute_output. What the request did not reach has no span. Times are the system clock's.
void add_spans(const TraceRecord& record, opentelemetry::proto::trace::v1::ScopeSpans* spans);

std::size_t span_count(const TraceRecord& record);  // an upper bound

}  // namespace tutti::server
