// Log settings under the protocol's names.
#pragma once

#include "base/status.h"
#include "server/log.h"
#include "server/parameters.h"

namespace tutti::server {

// INVALID_ARGUMENT names a setting that is not known or of the wrong kind; `settings` is then as it
// was in part only.
Status apply_log_changes(const ParameterMap& changes, LogSettings* settings);
ParameterMap log_parameters(const LogSettings& settings);

}  // namespace tutti::server
