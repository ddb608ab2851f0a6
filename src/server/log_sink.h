// Where log messages end: one line each, in the format of the settings.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/log.h"

namespace tutti::server {

// `text` without control characters, which could pass for further lines or colours.
std::string one_line(std::string_view text);

class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  static Result<std::shared_ptr<LogSink>> create(const LogSettings& settings);
  ~LogSink() override;

  LogSettings settings();
  Status change(const LogSettings& settings);

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override;

 private:
  LogSink(const LogSettings& settings, std::FILE* file) : settings_(settings), file_(file) {}
  bool is_wanted(spdlog::level::level_enum level) const;

  LogSettings settings_;  // under the base's mutex
  std::FILE* file_;       // stderr, or owned
};

}  // namespace tutti::server
