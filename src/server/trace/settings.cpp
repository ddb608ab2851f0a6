#include "server/trace/settings.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "server/names.h"
#include "server/pem.h"

namespace tutti::server {
namespace {

template <class Number>
Result<Number> parse_number(std::string_view text, Number least) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < least) {
    return invalid_argument("'", printable(text), "' is no whole number from ", least, " to ",
                            std::numeric_limits<Number>::max());
  }
  return number;
}

constexpr std::string_view kSettings[] = {"trace_level", "trace_rate", "trace_count",
                                          "log_frequency"};

bool is_setting(std::string_view name) {
  return std::find(std::begin(kSettings), std::end(kSettings), name) != std::end(kSettings);
}

Status unknown_setting() {
  return invalid_argument(
      "is not known, expected trace_level, trace_rate, trace_count or log_frequency");
}

Status set_level(const std::vector<std::string>& levels, TraceSettings* settings) {
  settings->timestamps = false;
  settings->tensors = false;
  for (const std::string& level : levels) {
    if (level == "TIMESTAMPS") {
      settings->timestamps = true;
    } else if (level == "TENSORS") {
      settings->tensors = true;
    } else if (level != "OFF") {
      return invalid_argument("'", printable(level),
                              "' is no level, expected OFF, TIMESTAMPS or TENSORS");
    } else if (levels.size() > 1) {
      return invalid_argument("OFF stands beside other levels, expected it alone");
    }
  }
  return Status();
}

Status set_one(const std::string& name, const std::vector<std::string>& values,
               TraceSettings* settings) {
  if (name == "trace_level") return set_level(values, settings);
  if (values.size() > 1) return invalid_argument("has ", values.size(), " values, expected one");
  const std::string& value = values.front();
  if (name == "trace_rate") {
    TUTTI_ASSIGN_OR_RETURN(settings->rate, parse_number<std::uint32_t>(value, 0));
  } else if (name == "trace_count") {
    TUTTI_ASSIGN_OR_RETURN(settings->count, parse_number<std::int32_t>(value, -1));
  } else if (name == "log_frequency") {
    TUTTI_ASSIGN_OR_RETURN(settings->log_frequency, parse_number<std::uint32_t>(value, 0));
  } else if (name == "trace_file") {
    settings->file = value;
  } else {
    return unknown_setting();
  }
  return Status();
}

// "key=value".
Result<std::pair<std::string, std::string>> parse_pair(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return invalid_argument("'", printable(text), "' is no KEY=VALUE");
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// What gRPC takes as metadata: it ends the process over anything else.
Result<std::pair<std::string, std::string>> parse_header(const std::string& text) {
  TUTTI_ASSIGN_OR_RETURN(auto header, parse_pair(text));
  const auto is_name_char = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  for (char& c : header.first) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  const auto& [name, value] = header;
  if (!std::all_of(name.begin(), name.end(), is_name_char) || name.ends_with("-bin") ||
      name.starts_with("grpc-")) {
    return invalid_argument("'", printable(name), "' is no name of a header");
  }
  if (!std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    return invalid_argument("the value of '", name, "' holds more than printable ASCII");
  }
  return header;
}

std::string* pem_setting(const std::string& name, OtlpTls* tls) {
  if (name == "certificate") return &tls->certificate;
  if (name == "client_certificate") return &tls->client_certificate;
  if (name == "client_key") return &tls->client_key;
  return nullptr;
}

Status set_otlp(const std::string& name, const std::string& value, OtlpOptions* otlp) {
  if (name == "url") {
    otlp->url = value;
  } else if (std::string* const pem = pem_setting(name, &otlp->tls)) {
    TUTTI_ASSIGN_OR_RETURN(*pem, read_pem(value));
  } else if (name == "header") {
    TUTTI_ASSIGN_OR_RETURN(auto header, parse_header(value));
    otlp->headers.push_back(std::move(header));
  } else if (name == "resource") {
    TUTTI_ASSIGN_OR_RETURN(auto attribute, parse_pair(value));
    otlp->resource[attribute.first] = std::move(attribute.second);
  } else if (name == "bsp_max_queue_size") {
    TUTTI_ASSIGN_OR_RETURN(otlp->max_queue_size, parse_number<std::uint32_t>(value, 1));
  } else if (name == "bsp_max_export_batch_size") {
    TUTTI_ASSIGN_OR_RETURN(otlp->max_export_batch_size, parse_number<std::uint32_t>(value, 1));
  } else if (name == "bsp_schedule_delay") {
    TUTTI_ASSIGN_OR_RETURN(const auto delay, parse_number<std::uint32_t>(value, 1));
    otlp->schedule_delay = std::chrono::milliseconds(delay);
  } else {
    return invalid_argument(
        "is not known, expected url, certificate, client_certificate, client_key, header, "
        "resource, bsp_max_queue_size, bsp_schedule_delay or bsp_max_export_batch_size");
  }
  return Status();
}

Status set_global(const std::string& name, const std::string& value,
                  std::vector<std::string>* levels, TraceOptions* options) {
  if (name == "mode") {
    const bool is_triton = value == "triton";
    if (!is_triton && value != "opentelemetry") {
      return invalid_argument("'", printable(value),
                              "' is no mode, expected triton or opentelemetry");
    }
    options->mode = is_triton ? TraceMode::kTriton : TraceMode::kOpenTelemetry;
    return Status();
  }
  if (name == "level") {  // several flags add up
    levels->push_back(value);
    return set_level(*levels, &options->settings);
  }
  if (name == "rate" || name == "count") {
    return set_one("trace_" + name, {value}, &options->settings);
  }
  return invalid_argument("is not known, expected level, rate, count or mode");
}

Status set_triton(const std::string& name, const std::string& value, TraceSettings* settings) {
  if (name == "file") return set_one("trace_file", {value}, settings);
  if (name == "log-frequency") return set_one("log_frequency", {value}, settings);
  return invalid_argument("is not known, expected file or log-frequency");
}

Status check_tls(const OtlpOptions& otlp) {
  const OtlpTls& tls = otlp.tls;
  if (!uses_tls(otlp) && tls != OtlpTls()) {
    return invalid_argument("opentelemetry,url '", printable(otlp.url),
                            "' is without TLS, expected https://HOST:PORT beside a certificate");
  }
  if (tls.client_certificate.empty() != tls.client_key.empty()) {
    return invalid_argument("opentelemetry,",
                            tls.client_key.empty() ? "client_key" : "client_certificate",
                            " is missing, expected both or neither");
  }
  return Status();
}

// "localhost:4317", or the same behind http:// or https://.
Status check_options(const TraceOptions& options) {
  const OtlpOptions& otlp = options.otlp;
  if (otlp.max_export_batch_size > otlp.max_queue_size) {
    return invalid_argument("opentelemetry,bsp_max_export_batch_size is ",
                            otlp.max_export_batch_size, ", expected at most bsp_max_queue_size, ",
                            otlp.max_queue_size);
  }
  const std::string_view host = otlp_target(otlp);
  if (host.empty() || host.find('/') != std::string_view::npos) {
    return invalid_argument("opentelemetry,url '", printable(otlp.url),
                            "': OTLP travels over gRPC, expected HOST:PORT such as localhost:4317");
  }
  TUTTI_RETURN_IF_ERROR(check_tls(otlp));
  if (options.mode == TraceMode::kTriton && options.settings.file.empty() &&
      (options.settings.timestamps || options.settings.tensors)) {
    return invalid_argument("a level needs a file: triton,file=PATH, or mode=opentelemetry");
  }
  return Status();
}

}  // namespace

std::string_view trace_mode_name(TraceMode mode) {
  return mode == TraceMode::kTriton ? "triton" : "opentelemetry";
}

bool uses_tls(const OtlpOptions& otlp) { return otlp.url.starts_with("https://"); }

std::string_view otlp_target(const OtlpOptions& otlp) {
  std::string_view url = otlp.url;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (url.starts_with(scheme)) return url.substr(scheme.size());
  }
  return url;
}

Result<TraceOptions> parse_trace_options(const std::vector<std::string>& configs) {
  TraceOptions options;
  std::vector<std::string> levels;
  for (const std::string& config : configs) {
    const auto equals = config.find('=');
    const auto comma = config.substr(0, equals).find(',');
    const std::string mode = comma == std::string::npos ? "" : config.substr(0, comma);
    const std::string name = config.substr(comma == std::string::npos ? 0 : comma + 1,
                                           equals - (comma == std::string::npos ? 0 : comma + 1));
    Status status;
    if (equals == std::string::npos) {
      status = invalid_argument("has no value, expected [MODE,]SETTING=VALUE");
    } else if (const std::string value = config.substr(equals + 1); mode.empty()) {
      status = set_global(name, value, &levels, &options);
    } else if (mode == "triton") {
      status = set_triton(name, value, &options.settings);
    } else if (mode == "opentelemetry") {
      status = set_otlp(name, value, &options.otlp);
    } else {
      status = invalid_argument("begins with no mode, expected triton or opentelemetry");
    }
    if (!status.ok()) return status.with_context(str_cat("'", printable(config), "'"));
  }
  TUTTI_RETURN_IF_ERROR(check_options(options));
  return options;
}

Status apply_trace_changes(const TraceChanges& changes, TraceSettings* settings) {
  for (const auto& [name, values] : changes) {
    if (name == "trace_file") {
      return unimplemented("trace file location can not be updated through network protocol");
    }
    if (name == "trace_mode") {
      return unimplemented("trace mode can not be updated through network protocol");
    }
    const Status status = !values.empty()    ? set_one(name, values, settings)
                          : is_setting(name) ? Status()
                                             : unknown_setting();
    if (!status.ok()) return status.with_context(str_cat("trace setting '", printable(name), "'"));
  }
  return Status();
}

TraceChanges trace_values(TraceMode mode, const TraceSettings& settings, const OtlpOptions& otlp) {
  TraceChanges values;
  std::vector<std::string>& levels = values["trace_level"];
  if (settings.timestamps) levels.push_back("TIMESTAMPS");
  if (settings.tensors) levels.push_back("TENSORS");
  if (levels.empty()) levels.push_back("OFF");
  values["trace_rate"] = {std::to_string(settings.rate)};
  values["trace_count"] = {std::to_string(settings.count)};
  values["trace_mode"] = {std::string(trace_mode_name(mode))};
  if (mode == TraceMode::kTriton) {
    values["log_frequency"] = {std::to_string(settings.log_frequency)};
    values["trace_file"] = {settings.file};
    return values;
  }
  values["url"] = {otlp.url};
  for (const auto& [name, value] : otlp.resource) {
    values["resource"].push_back(str_cat(name, "=", value));
  }
  values["bsp_max_queue_size"] = {std::to_string(otlp.max_queue_size)};
  values["bsp_schedule_delay"] = {std::to_string(otlp.schedule_delay.count())};
  values["bsp_max_export_batch_size"] = {std::to_string(otlp.max_export_batch_size)};
  return values;
}

}  // namespace tutti::server
