// The server's log: one logger, made by the command and given to whom it concerns.
#pragma once

#include <spdlog/logger.h>

#include <memory>

namespace tutti::server {

using Log = std::shared_ptr<spdlog::logger>;

// Writes to stderr. verbosity 0: information and above; 1 and more: debug messages too.
Log make_log(int verbosity);
// Drops everything: for tests.
Log make_silent_log();

}  // namespace tutti::server
