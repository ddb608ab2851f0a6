// Traces of requests that come over gRPC.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>

#include "server/trace/manager.h"

namespace tutti::server {

// What the call's metadata say of the trace that it belongs to.
std::optional<TraceContext> trace_context(const grpc::CallbackServerContext& context);

// A trace of the request that was read at `arrived`, if it is to be traced.
std::shared_ptr<RequestTrace> sample_trace(TraceManager& traces, std::optional<TraceContext> parent,
                                           const std::string& model, TimePoint arrived);
std::shared_ptr<RequestTrace> sample_trace(TraceManager& traces,
                                           const grpc::CallbackServerContext& context,
                                           const std::string& model, TimePoint arrived);

}  // namespace tutti::server
