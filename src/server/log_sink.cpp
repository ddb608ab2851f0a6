#include "server/log_sink.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include "server/json/write.h"
#include "server/names.h"

namespace tutti::server {
namespace {

using spdlog::level::level_enum;

Status check_format(const std::string& format) {
  if (format == "default" || format == "ISO8601" || format == "json") return Status();
  return invalid_argument("log_format '", printable(format),
                          "', expected default, ISO8601 or json");
}

char severity_letter(level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug: return 'D';
    case spdlog::level::info: return 'I';
    case spdlog::level::warn: return 'W';
    default: return 'E';
  }
}

std::string_view severity_name(level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug: return "debug";
    case spdlog::level::info: return "info";
    case spdlog::level::warn: return "warning";
    default: return "error";
  }
}

std::string time_text(spdlog::log_clock::time_point time, const char* pattern, bool is_utc) {
  const std::time_t seconds = spdlog::log_clock::to_time_t(time);
  std::tm parts{};
  is_utc ? gmtime_r(&seconds, &parts) : localtime_r(&seconds, &parts);
  char text[64];
  return std::string(text, std::strftime(text, sizeof(text), pattern, &parts));
}

std::string six_digits(spdlog::log_clock::time_point time) {
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count() %
      1'000'000;
  const std::string digits = std::to_string(us);
  return std::string(6 - digits.size(), '0') + digits;
}

std::string format_message(const LogSettings& settings, const spdlog::details::log_msg& message) {
  const std::string_view text(message.payload.data(), message.payload.size());
  const std::string process = std::to_string(getpid());
  if (settings.format == "json") {
    return str_cat("{\"time\":\"", time_text(message.time, "%Y-%m-%dT%H:%M:%S", true), ".",
                   six_digits(message.time), "Z\",\"severity\":\"", severity_name(message.level),
                   "\",\"pid\":", process, ",\"message\":", json_string(text), "}\n");
  }
  const char letter = severity_letter(message.level);
  if (settings.format == "ISO8601") {
    return str_cat(time_text(message.time, "%Y-%m-%dT%H:%M:%SZ", true), " ", letter, " ", process,
                   "] ", one_line(text), "\n");
  }
  return str_cat(letter, time_text(message.time, "%m%d %H:%M:%S", false), ".",
                 six_digits(message.time), " ", process, "] ", one_line(text), "\n");
}

}  // namespace

std::string one_line(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out.push_back(c);
    } else {
      out += str_cat("\\x", kHex[byte >> 4], kHex[byte & 15U]);
    }
  }
  return out;
}

Result<std::shared_ptr<LogSink>> LogSink::create(const LogSettings& settings) {
  TUTTI_RETURN_IF_ERROR(check_format(settings.format));
  std::FILE* file = stderr;
  if (!settings.file.empty()) {
    file = std::fopen(settings.file.c_str(), "ae");
    if (file == nullptr) {
      return invalid_argument("log_file '", printable(settings.file),
                              "' cannot be written: ", std::strerror(errno));
    }
  }
  return std::shared_ptr<LogSink>(new LogSink(settings, file));
}

LogSink::~LogSink() {
  if (file_ != stderr) std::fclose(file_);
}

LogSettings LogSink::settings() {
  const std::lock_guard lock(mutex_);
  return settings_;
}

Status LogSink::change(const LogSettings& settings) {
  TUTTI_RETURN_IF_ERROR(check_format(settings.format));
  const std::lock_guard lock(mutex_);
  if (settings.file != settings_.file) {
    return unimplemented("log file location can not be updated through network protocol");
  }
  settings_ = settings;
  return Status();
}

bool LogSink::is_wanted(level_enum level) const {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug: return settings_.verbose_level > 0;
    case spdlog::level::info: return settings_.info;
    case spdlog::level::warn: return settings_.warning;
    default: return settings_.error;
  }
}

void LogSink::sink_it_(const spdlog::details::log_msg& message) {
  if (!is_wanted(message.level)) return;
  const std::string line = format_message(settings_, message);
  std::fwrite(line.data(), 1, line.size(), file_);
}

void LogSink::flush_() { std::fflush(file_); }

}  // namespace tutti::server
