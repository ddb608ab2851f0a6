#include "server/metrics/endpoint.h"

#include <utility>

namespace tutti::server {

void handle_metrics(MetricsCollector& collector, HttpExchange& exchange) {
  const HttpRequest& request = exchange.request();
  if (request.path != "/metrics") return exchange.respond(error_response(404, "Not Found"));
  if (request.method != "GET") {
    HttpResponse response = error_response(405, "Method Not Allowed");
    response.headers.emplace_back("Allow", "GET");
    return exchange.respond(std::move(response));
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.text = collector.scrape();
  response.is_compressible = true;
  exchange.respond(std::move(response));
}

}  // namespace tutti::server
