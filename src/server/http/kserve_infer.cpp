// Inference over HTTP.
#include <re2/re2.h>

#include <utility>

#include "server/http/generate.h"
#include "server/http/kserve.h"
#include "server/http/text.h"

namespace tutti::server {
namespace {

// The trace lasts until the answer is written.
HttpResponse traced(const std::shared_ptr<RequestTrace>& trace, HttpResponse response,
                    const Status& status) {
  if (!trace) return response;
  trace->answered(status);
  struct Owner {
    std::shared_ptr<const void> pieces;
    TracedSending sending;
  };
  response.owner = std::shared_ptr<Owner>(new Owner{
      std::move(response.owner), TracedSending(trace, "HTTP_SEND_START", "HTTP_SEND_END")});
  return response;
}

}  // namespace

void KServeHttp::forward_headers(const HttpRequest& http, InferRequest* request) const {
  if (!forwarded_) return;
  for (const auto& [name, value] : http.headers) {
    if (re2::RE2::PartialMatch(name, *forwarded_)) request->parameters[name] = value;
  }
}

Result<HttpInfer> KServeHttp::decode(const HttpRequest& request, const PathNames& names) const {
  const auto header_size = parse_size(request.header("Inference-Header-Content-Length"));
  if (header_size != std::size_t{0}) return decode_infer(request);
  TUTTI_ASSIGN_OR_RETURN(const ModelMetadata metadata,
                         service_.model_metadata(names.model, names.version));
  TUTTI_ASSIGN_OR_RETURN(const auto config, service_.model_config(names.model, names.version));
  return decode_raw_infer(request, metadata.signature, config.max_batch_size() > 0);
}

std::shared_ptr<RequestTrace> KServeHttp::sample_trace(const HttpRequest& request,
                                                       const PathNames& names) const {
  TraceManager& traces = service_.traces();
  if (!traces.is_on()) return nullptr;
  const TimePoint read = std::chrono::steady_clock::now();
  auto parent = parse_trace_context(request.header("traceparent"), request.header("tracestate"));
  auto trace = traces.sample(names.model, "http", std::move(parent), request.arrived);
  if (trace) {
    trace->note("HTTP_RECV_START", request.arrived);
    trace->note("HTTP_RECV_END", read);
  }
  return trace;
}

void KServeHttp::infer(const ExchangePtr& exchange, const PathNames& names) const {
  const HttpRequest& http = exchange->request();
  const auto trace = sample_trace(http, names);
  auto decoded = decode(http, names);
  if (!decoded.ok()) {
    service_.note_refused(names.model, names.version, http.arrived);
    return exchange->respond(traced(trace, error_response(decoded.status()), decoded.status()));
  }
  InferRequest request = std::move(decoded->request);
  request.model_name = names.model;
  request.model_version = names.version;
  request.cancel = exchange->cancel();
  forward_headers(http, &request);
  if (trace) request.trace = trace->start_model();
  auto sink = std::make_shared<BufferSink>();
  service_.infer(
      std::move(request), sink,
      [exchange, sink, trace,
       infer = std::make_shared<HttpInfer>(*std::move(decoded))](Result<InferResponse> result) {
        if (!result.ok()) {
          return exchange->respond(traced(trace, error_response(result.status()), result.status()));
        }
        // Not here: writing JSON takes longer than an instance should wait.
        exchange->respond_later([sink, trace, infer, response = *std::move(result)] {
          auto http = encode_infer(*infer, response, sink);
          const Status status = http.status();
          return traced(trace, status.ok() ? *std::move(http) : error_response(status), status);
        });
      });
}

void KServeHttp::generate(const ExchangePtr& exchange, const PathNames& names,
                          bool is_stream) const {
  const HttpRequest& http = exchange->request();
  const auto metadata = service_.model_metadata(names.model, names.version);
  if (!metadata.ok()) return exchange->respond(error_response(metadata.status()));
  const auto trace = sample_trace(http, names);
  auto request = decode_generate(http, metadata->signature);
  if (!request.ok()) {
    service_.note_refused(names.model, names.version, http.arrived);
    return exchange->respond(traced(trace, error_response(request.status()), request.status()));
  }
  request->model_name = names.model;
  request->model_version = names.version;
  request->cancel = exchange->cancel();
  forward_headers(http, &*request);
  if (trace) request->trace = trace->start_model();
  auto sink = std::make_shared<BufferSink>();
  service_.infer(*std::move(request), sink,
                 [exchange, sink, trace, is_stream](Result<InferResponse> result) {
                   const auto fail = [&](const Status& status) {
                     exchange->respond(traced(trace, error_response(status), status));
                   };
                   if (!result.ok()) return fail(result.status());
                   auto json = encode_generate(*result, *sink);
                   if (!json.ok()) return fail(json.status());
                   if (!is_stream) {
                     HttpResponse response;
                     response.text = *std::move(json);
                     return exchange->respond(traced(trace, std::move(response), Status()));
                   }
                   // Server-sent events, one a response.
                   exchange->begin_stream("text/event-stream; charset=utf-8");
                   exchange->send(str_cat("data: ", *json, "\n\n"));
                   exchange->end_stream();
                 });
}

}  // namespace tutti::server
