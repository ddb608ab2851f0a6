// A trace as Triton's trace files hold it.
#pragma once

#include <string>

#include "server/trace/record.h"

namespace tutti::server {

// The entries of one trace, separated by commas: each model's description, then a timestamp each,
// in nanoseconds of the steady clock.
std::string trace_json(const TraceRecord& record);

}  // namespace tutti::server
