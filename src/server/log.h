// The server's log: one logger, made by the command and given to whom it concerns.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace tutti::server {

using Log = std::shared_ptr<spdlog::logger>;

// What is written and how; Triton's log settings.
struct LogSettings {
  bool info = true;
  bool warning = true;
  bool error = true;
  std::uint32_t verbose_level = 0;  // 1 and more: debug messages too
  // "default" (I1130 14:12:01.123456 42] text), "ISO8601" (2026-11-30T14:12:01Z I 42] text), "json"
  // ({"time": .., "severity": "info", "pid": 42, "message": ".."}).
  std::string format = "default";
  std::string file;  // "": stderr
};

// A message is one line: control characters in it are escaped, whoever put them there.
// INVALID_ARGUMENT for a format that is none and a file that cannot be written.
Result<Log> make_log(const LogSettings& settings);
// Drops everything: for tests.
Log make_silent_log();

LogSettings log_settings(const Log& log);
// From now on. INVALID_ARGUMENT for a format that is none; UNIMPLEMENTED for another file: who may
// ask over the network may not choose files.
Status change_log(const Log& log, const LogSettings& settings);

}  // namespace tutti::server
