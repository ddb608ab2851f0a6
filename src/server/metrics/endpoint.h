// The paths of the metrics port.
#pragma once

#include "server/http/exchange.h"
#include "server/metrics/collector.h"

namespace tutti::server {

// GET /metrics; 404 for other paths, 405 for other methods.
void handle_metrics(MetricsCollector& collector, HttpExchange& exchange);

}  // namespace tutti::server
