// The paths of the metrics port.
#pragma once

#include <string_view>

#include "server/http/exchange.h"
#include "server/metrics/collector.h"

namespace tutti::server {

// GET /metrics for Prometheus, / the status page, /status.json what it shows; 404 for other paths,
// 405 for other methods.
void handle_metrics(MetricsCollector& collector, HttpExchange& exchange);

std::string_view status_page();  // status_page.html

}  // namespace tutti::server
