#include "server/metrics/endpoint.h"

#include <utility>

namespace tutti::server {

void handle_metrics(MetricsCollector& collector, HttpExchange& exchange) {
  const HttpRequest& request = exchange.request();
  const bool is_page = request.path == "/";
  const bool is_status = request.path == "/status.json";
  if (!is_page && !is_status && request.path != "/metrics") {
    return exchange.respond(error_response(404, "Not Found"));
  }
  HttpResponse response;
  if (request.method != "GET") {
    response = error_response(405, "Method Not Allowed");
    response.headers.emplace_back("Allow", "GET");
    return exchange.respond(std::move(response));
  }
  if (is_page) {
    response.content_type = "text/html; charset=utf-8";
    response.text = status_page();
    // The page brings all that it needs, and talks to nobody else.
    response.headers.emplace_back("Content-Security-Policy",
                                  "default-src 'none'; style-src 'unsafe-inline'; "
                                  "script-src 'unsafe-inline'; connect-src 'self'; "
                                  "base-uri 'none'; form-action 'none'");
    response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  } else if (is_status) {
    response.text = collector.status();
    response.headers.emplace_back("Cache-Control", "no-store");
  } else {
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.text = collector.scrape();
  }
  response.is_compressible = true;
  exchange.respond(std::move(response));
}

}  // namespace tutti::server
