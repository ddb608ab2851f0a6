#include "server/grpc/trace_context.h"

#include <string_view>
#include <utility>

namespace tutti::server {
namespace {

std::string_view metadata(const grpc::CallbackServerContext& context, const char* name) {
  const auto& all = context.client_metadata();
  const auto found = all.find(name);
  return found == all.end() ? std::string_view()
                            : std::string_view(found->second.data(), found->second.size());
}

}  // namespace

std::optional<TraceContext> trace_context(const grpc::CallbackServerContext& context) {
  return parse_trace_context(metadata(context, "traceparent"), metadata(context, "tracestate"));
}

std::shared_ptr<RequestTrace> sample_trace(TraceManager& traces, std::optional<TraceContext> parent,
                                           const std::string& model, TimePoint arrived) {
  if (!traces.is_on()) return nullptr;
  auto trace = traces.sample(model, "grpc", std::move(parent), arrived);
  if (trace) {
    // gRPC hands a message over whole: how long it waited and read is not to be seen here.
    trace->note("GRPC_WAITREAD_START", arrived);
    trace->note("GRPC_WAITREAD_END", arrived);
  }
  return trace;
}

std::shared_ptr<RequestTrace> sample_trace(TraceManager& traces,
                                           const grpc::CallbackServerContext& context,
                                           const std::string& model, TimePoint arrived) {
  if (!traces.is_on()) return nullptr;
  return sample_trace(traces, trace_context(context), model, arrived);
}

}  // namespace tutti::server
