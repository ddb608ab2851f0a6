#include "server/log_parameters.h"

#include <limits>

#include "server/names.h"

namespace tutti::server {
namespace {

Status set_truth(const ParameterValue& value, bool* truth) {
  const auto* given = std::get_if<bool>(&value);
  if (given == nullptr) return invalid_argument("expected true or false");
  *truth = *given;
  return Status();
}

Status set_text(const ParameterValue& value, std::string* text) {
  const auto* given = std::get_if<std::string>(&value);
  if (given == nullptr) return invalid_argument("expected a text");
  *text = *given;
  return Status();
}

Status set_level(const ParameterValue& value, std::uint32_t* level) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (const auto* number = std::get_if<std::uint64_t>(&value); number && *number <= kMost) {
    *level = static_cast<std::uint32_t>(*number);
    return Status();
  }
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number == nullptr || *number < 0 || static_cast<std::uint64_t>(*number) > kMost) {
    return invalid_argument("expected a whole number from 0 to ", kMost);
  }
  *level = static_cast<std::uint32_t>(*number);
  return Status();
}

Status set_one(const std::string& name, const ParameterValue& value, LogSettings* settings) {
  if (name == "log_info") return set_truth(value, &settings->info);
  if (name == "log_warning") return set_truth(value, &settings->warning);
  if (name == "log_error") return set_truth(value, &settings->error);
  if (name == "log_verbose_level") return set_level(value, &settings->verbose_level);
  if (name == "log_format") return set_text(value, &settings->format);
  if (name == "log_file") return set_text(value, &settings->file);
  return invalid_argument("is not known");
}

}  // namespace

Status apply_log_changes(const ParameterMap& changes, LogSettings* settings) {
  for (const auto& [name, value] : changes) {
    const Status status = set_one(name, value, settings);
    if (!status.ok()) {
      return status.with_context(str_cat("log setting '", printable(name), "'"));
    }
  }
  return Status();
}

ParameterMap log_parameters(const LogSettings& settings) {
  return {{"log_file", settings.file},
          {"log_info", settings.info},
          {"log_warning", settings.warning},
          {"log_error", settings.error},
          {"log_verbose_level", std::uint64_t{settings.verbose_level}},
          {"log_format", settings.format}};
}

}  // namespace tutti::server
