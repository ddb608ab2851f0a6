#include "server/log.h"

#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace tutti::server {

Log make_log(int verbosity) {
  // Not spdlog::stderr_logger_mt: that one registers the logger globally.
  auto log =
      std::make_shared<spdlog::logger>("tutti", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log->set_pattern("%L%m%d %H:%M:%S.%f %P] %v");
  log->set_level(verbosity > 0 ? spdlog::level::debug : spdlog::level::info);
  log->flush_on(spdlog::level::info);
  return log;
}

Log make_silent_log() {
  return std::make_shared<spdlog::logger>("silent",
                                          std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace tutti::server
