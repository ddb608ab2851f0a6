// A server's status document as text for a terminal.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace tutti::cli {

struct StatusStyle {
  bool has_colours = false;
  int width = 100;  // columns
};

// Rates and latencies are of the time between `before` and `now`; without `before` (null) there are
// no rates, and latencies are since the models were loaded. INVALID_ARGUMENT for a document that is
// no status.
Result<std::string> render_status(const nlohmann::json& now, const nlohmann::json& before,
                                  const StatusStyle& style);

}  // namespace tutti::cli
