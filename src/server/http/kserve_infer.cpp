// Inference over HTTP.
#include <re2/re2.h>

#include <utility>

#include "server/http/generate.h"
#include "server/http/kserve.h"
#include "server/http/text.h"

namespace tutti::server {

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

void KServeHttp::infer(const ExchangePtr& exchange, const PathNames& names) const {
  const HttpRequest& http = exchange->request();
  auto decoded = decode(http, names);
  if (!decoded.ok()) {
    service_.note_refused(names.model, names.version, http.arrived);
    return exchange->respond(error_response(decoded.status()));
  }
  InferRequest request = std::move(decoded->request);
  request.model_name = names.model;
  request.model_version = names.version;
  request.cancel = exchange->cancel();
  forward_headers(http, &request);
  auto sink = std::make_shared<HttpSink>();
  service_.infer(std::move(request), sink,
                 [exchange, sink, infer = std::make_shared<HttpInfer>(*std::move(decoded))](
                     Result<InferResponse> result) {
                   if (!result.ok()) return exchange->respond(error_response(result.status()));
                   // Not here: writing JSON takes longer than an instance should wait.
                   exchange->respond_later([sink, infer, response = *std::move(result)] {
                     auto http = encode_infer(*infer, response, sink);
                     return http.ok() ? *std::move(http) : error_response(http.status());
                   });
                 });
}

void KServeHttp::generate(const ExchangePtr& exchange, const PathNames& names,
                          bool is_stream) const {
  const HttpRequest& http = exchange->request();
  const auto metadata = service_.model_metadata(names.model, names.version);
  if (!metadata.ok()) return exchange->respond(error_response(metadata.status()));
  auto request = decode_generate(http, metadata->signature);
  if (!request.ok()) {
    service_.note_refused(names.model, names.version, http.arrived);
    return exchange->respond(error_response(request.status()));
  }
  request->model_name = names.model;
  request->model_version = names.version;
  request->cancel = exchange->cancel();
  forward_headers(http, &*request);
  auto sink = std::make_shared<HttpSink>();
  service_.infer(*std::move(request), sink,
                 [exchange, sink, is_stream](Result<InferResponse> result) {
                   if (!result.ok()) return exchange->respond(error_response(result.status()));
                   auto json = encode_generate(*result, *sink);
                   if (!json.ok()) return exchange->respond(error_response(json.status()));
                   if (!is_stream) {
                     HttpResponse response;
                     response.text = *std::move(json);
                     return exchange->respond(std::move(response));
                   }
                   // Server-sent events, one a response.
                   exchange->begin_stream("text/event-stream; charset=utf-8");
                   exchange->send(str_cat("data: ", *json, "\n\n"));
                   exchange->end_stream();
                 });
}

}  // namespace tutti::server
