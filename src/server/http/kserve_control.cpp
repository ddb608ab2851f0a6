// What changes the server: model repository and shared memory over HTTP.
#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "server/http/kserve.h"
#include "server/http/text.h"
#include "server/json/proto.h"
#include "server/json/reader.h"
#include "server/messages.h"
#include "server/names.h"

namespace tutti::server {
namespace {

HttpResponse status_response(const Status& status) {
  return status.ok() ? HttpResponse() : error_response(status);
}

// A body that may be empty, or one object whose members go to `on_member`.
Status read_body(const HttpRequest& request,
                 const std::function<Status(JsonReader&, const std::string&)>& on_member) {
  if (request.body.empty()) return Status();
  JsonReader reader(request.text());
  TUTTI_RETURN_IF_ERROR(
      reader.read_object([&](const std::string& name) { return on_member(reader, name); }));
  return reader.expect_end();
}

Result<ParameterMap> read_body_parameters(const HttpRequest& request) {
  ParameterMap parameters;
  TUTTI_RETURN_IF_ERROR(read_body(request, [&](JsonReader& reader, const std::string& name) {
    if (name != "parameters") return reader.skip();
    auto read = read_parameters(reader);
    if (read.ok()) parameters = *std::move(read);
    return read.status();
  }));
  return parameters;
}

// A text, texts, or null for none.
Result<std::vector<std::string>> read_trace_values(JsonReader& reader) {
  std::vector<std::string> values;
  const auto read_one = [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(std::string value, reader.read_string());
    values.push_back(std::move(value));
    return Status();
  };
  TUTTI_ASSIGN_OR_RETURN(const auto kind, reader.peek());
  TUTTI_RETURN_IF_ERROR(kind == JsonReader::Kind::kNull    ? reader.read_null()
                        : kind == JsonReader::Kind::kArray ? reader.read_array(read_one)
                                                           : read_one());
  return values;
}

Result<std::uint64_t> read_count(JsonReader& reader, const std::string& name) {
  TUTTI_ASSIGN_OR_RETURN(const JsonNumber number, reader.read_number());
  if (const auto* large = std::get_if<std::uint64_t>(&number)) return *large;
  if (const auto* small = std::get_if<std::int64_t>(&number); small != nullptr && *small >= 0) {
    return static_cast<std::uint64_t>(*small);
  }
  return invalid_argument("'", name, "' is no whole number >= 0");
}

// {"b64": "..."}: the bytes.
Result<std::string> read_handle(JsonReader& reader) {
  std::optional<std::string> bytes;
  TUTTI_RETURN_IF_ERROR(reader.read_object([&](const std::string& name) -> Status {
    if (name != "b64") return reader.skip();
    TUTTI_ASSIGN_OR_RETURN(const std::string text, reader.read_string());
    bytes = base64_decoded(text);
    return bytes ? Status() : invalid_argument("'raw_handle': 'b64' is no base64 text");
  }));
  if (!bytes) return invalid_argument("'raw_handle' has no 'b64' field");
  return *std::move(bytes);
}

}  // namespace

HttpResponse KServeHttp::repository_index(const HttpRequest& request,
                                          const PathNames& names) const {
  bool only_ready = false;
  const Status status = read_body(request, [&](JsonReader& reader, const std::string& name) {
    if (name != "ready") return reader.skip();
    const auto value = reader.read_bool();
    only_ready = value.ok() && *value;
    return value.status();
  });
  if (!status.ok()) return error_response(status);
  const auto entries = service_.repository_index(names.repository, only_ready);
  if (!entries.ok()) return error_response(entries.status());
  Json list = Json::array();
  for (const IndexEntry& entry : *entries) {
    Json model = {{"name", entry.name}};
    if (!entry.version.empty()) model["version"] = entry.version;
    if (!entry.state.empty()) model["state"] = entry.state;
    if (!entry.reason.empty()) model["reason"] = entry.reason;
    list.push_back(std::move(model));
  }
  HttpResponse response;
  response.text = json_text(list);
  return response;
}

HttpResponse KServeHttp::logging(const HttpRequest& request) const {
  ParameterMap changes;
  if (request.method == "POST") {
    const Status status =
        read_body(request, [&](JsonReader& reader, const std::string& name) -> Status {
          TUTTI_ASSIGN_OR_RETURN(const auto kind, reader.peek());
          if (kind == JsonReader::Kind::kNull) return reader.read_null();  // stays as it is
          TUTTI_ASSIGN_OR_RETURN(changes[name], read_parameter(reader));
          return Status();
        });
    if (!status.ok()) return error_response(status);
  }
  const auto settings = service_.update_log(changes);
  if (!settings.ok()) return error_response(settings.status());
  HttpResponse response;
  response.text = "{";
  append_parameters_json(*settings, &response.text);
  response.text += "}";
  return response;
}

HttpResponse KServeHttp::trace_setting(const HttpRequest& request, const PathNames& names) const {
  TraceChanges changes;
  if (request.method == "POST") {
    const Status status =
        read_body(request, [&](JsonReader& reader, const std::string& name) -> Status {
          TUTTI_ASSIGN_OR_RETURN(changes[name], read_trace_values(reader));
          return Status();
        });
    if (!status.ok()) return error_response(status);
  }
  const auto settings = service_.update_trace(names.model, changes);
  if (!settings.ok()) return error_response(settings.status());
  Json json = Json::object();
  for (const auto& [name, values] : *settings) {
    // Levels and resources may be several, all others are one text.
    const bool is_list = name == "trace_level" || name == "resource";
    if (is_list) {
      json[name] = values;
    } else {
      json[name] = values.front();
    }
  }
  HttpResponse response;
  response.text = json_text(json);
  return response;
}

void KServeHttp::load(const ExchangePtr& exchange, const PathNames& names) const {
  auto parameters = read_body_parameters(exchange->request());
  if (!parameters.ok()) return exchange->respond(error_response(parameters.status()));
  // Files travel as bytes, which JSON holds in base64 only.
  for (auto& [name, value] : *parameters) {
    auto* text = std::get_if<std::string>(&value);
    if (!name.starts_with("file:") || text == nullptr) continue;
    auto content = base64_decoded(*text);
    if (!content) {
      return exchange->respond(error_response(
          invalid_argument("load parameter '", printable(name), "' is no base64 text")));
    }
    *text = *std::move(content);
  }
  service_.load_model(
      names.repository, names.model, *std::move(parameters),
      [exchange](const Status& status) { exchange->respond(status_response(status)); });
}

void KServeHttp::unload(const ExchangePtr& exchange, const PathNames& names) const {
  const auto parameters = read_body_parameters(exchange->request());
  if (!parameters.ok()) return exchange->respond(error_response(parameters.status()));
  service_.unload_model(
      names.repository, names.model, *parameters,
      [exchange](const Status& status) { exchange->respond(status_response(status)); });
}

HttpResponse KServeHttp::system_memory(HttpCall call, const HttpRequest& request,
                                       const PathNames& names) const {
  SharedMemoryRegistry& memory = service_.shared_memory();
  if (call == HttpCall::kSystemUnregister) {
    return status_response(memory.unregister_system(names.region));
  }
  if (call == HttpCall::kSystemStatus) {
    const auto entries = memory.system_status(names.region);
    if (!entries.ok()) return error_response(entries.status());
    Json list = Json::array();
    for (const SystemRegionEntry& entry : *entries) {
      list.push_back({{"name", entry.name},
                      {"key", entry.key},
                      {"offset", entry.offset},
                      {"byte_size", entry.byte_size}});
    }
    HttpResponse response;
    response.text = json_text(list);
    return response;
  }
  std::optional<std::string> key;
  std::optional<std::uint64_t> byte_size;
  std::uint64_t offset = 0;
  const Status status =
      read_body(request, [&](JsonReader& reader, const std::string& name) -> Status {
        if (name == "key") {
          TUTTI_ASSIGN_OR_RETURN(key, reader.read_string());
        } else if (name == "offset") {
          TUTTI_ASSIGN_OR_RETURN(offset, read_count(reader, name));
        } else if (name == "byte_size") {
          TUTTI_ASSIGN_OR_RETURN(byte_size, read_count(reader, name));
        } else {
          return reader.skip();
        }
        return Status();
      });
  if (!status.ok()) return error_response(status);
  if (!key || !byte_size) {
    return error_response(invalid_argument("Shared memory register request has no '",
                                           key ? "byte_size" : "key", "' field"));
  }
  return status_response(memory.register_system(names.region, *key, offset, *byte_size));
}

HttpResponse KServeHttp::cuda_memory(HttpCall call, const HttpRequest& request,
                                     const PathNames& names) const {
  SharedMemoryRegistry& memory = service_.shared_memory();
  if (call == HttpCall::kCudaRegister) return status_response(register_cuda(request, names));
  if (call == HttpCall::kCudaUnregister) {
    return status_response(memory.unregister_cuda(names.region));
  }
  const auto entries = memory.cuda_status(names.region);
  if (!entries.ok()) return error_response(entries.status());
  Json list = Json::array();
  for (const CudaRegionEntry& entry : *entries) {
    list.push_back(
        {{"name", entry.name}, {"device_id", entry.device}, {"byte_size", entry.byte_size}});
  }
  HttpResponse response;
  response.text = json_text(list);
  return response;
}

Status KServeHttp::register_cuda(const HttpRequest& request, const PathNames& names) const {
  std::optional<std::string> handle;
  std::optional<std::uint64_t> device;
  std::optional<std::uint64_t> byte_size;
  TUTTI_RETURN_IF_ERROR(
      read_body(request, [&](JsonReader& reader, const std::string& name) -> Status {
        if (name == "raw_handle") {
          TUTTI_ASSIGN_OR_RETURN(handle, read_handle(reader));
        } else if (name == "device_id") {
          TUTTI_ASSIGN_OR_RETURN(device, read_count(reader, name));
        } else if (name == "byte_size") {
          TUTTI_ASSIGN_OR_RETURN(byte_size, read_count(reader, name));
        } else {
          return reader.skip();
        }
        return Status();
      }));
  if (!handle || !device || !byte_size) {
    return invalid_argument("Shared memory register request has no '",
                            !handle   ? "raw_handle"
                            : !device ? "device_id"
                                      : "byte_size",
                            "' field");
  }
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  return service_.shared_memory().register_cuda(
      names.region, std::as_bytes(std::span(*handle)),
      static_cast<std::int64_t>(std::min(*device, kLargest)), *byte_size);
}

}  // namespace tutti::server
