#include "server/log.h"

#include <spdlog/sinks/null_sink.h>

#include "server/log_sink.h"

namespace tutti::server {
namespace {

LogSink* sink_of(const Log& log) {
  return log->sinks().empty() ? nullptr : dynamic_cast<LogSink*>(log->sinks().front().get());
}

}  // namespace

Result<Log> make_log(const LogSettings& settings) {
  TUTTI_ASSIGN_OR_RETURN(auto sink, LogSink::create(settings));
  // Not one of spdlog's factories: these register the logger globally.
  auto log = std::make_shared<spdlog::logger>("tutti", std::move(sink));
  // The sink decides; debug messages are made only while someone wants them.
  log->set_level(settings.verbose_level > 0 ? spdlog::level::debug : spdlog::level::info);
  log->flush_on(spdlog::level::debug);
  return log;
}

Log make_silent_log() {
  return std::make_shared<spdlog::logger>("silent",
                                          std::make_shared<spdlog::sinks::null_sink_mt>());
}

LogSettings log_settings(const Log& log) {
  LogSink* sink = sink_of(log);
  return sink == nullptr ? LogSettings() : sink->settings();
}

Status change_log(const Log& log, const LogSettings& settings) {
  LogSink* sink = sink_of(log);
  if (sink == nullptr) return unavailable("the log has no settings");
  TUTTI_RETURN_IF_ERROR(sink->change(settings));
  log->set_level(settings.verbose_level > 0 ? spdlog::level::debug : spdlog::level::info);
  return Status();
}

}  // namespace tutti::server
