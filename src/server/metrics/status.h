// What a person wants to see of a running server, as one JSON document: for the status page and for
// `tutti status`. docs/serving.md describes it.
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "runtime/backend.h"
#include "server/metrics/machine.h"
#include "server/service.h"

namespace tutti::server {

std::string status_json(const InferenceService& service, const MachineSample& machine,
                        std::span<const DeviceLoad> gpus, std::chrono::nanoseconds uptime);

}  // namespace tutti::server
