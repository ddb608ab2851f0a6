#include "server/http/kserve.h"

#include <re2/re2.h>

#include <utility>

#include "server/json/proto.h"
#include "server/messages.h"
#include "server/names.h"

namespace tutti::server {
namespace {

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.text = json_text(json);
  return response;
}

HttpResponse proto_response(const google::protobuf::Message& message) {
  return json_response(proto_to_json(message));
}

// Health calls say it by the status alone.
HttpResponse truth_response(bool is_true) {
  HttpResponse response;
  response.status = is_true ? 200 : 400;
  response.content_type = "";
  return response;
}

}  // namespace

KServeHttp::KServeHttp(InferenceService& service, KServeHttpOptions options)
    : service_(service), options_(std::move(options)) {}

KServeHttp::~KServeHttp() = default;

Result<std::shared_ptr<const KServeHttp>> KServeHttp::create(InferenceService& service,
                                                             KServeHttpOptions options) {
  const std::string pattern = options.header_forward_pattern;
  std::shared_ptr<KServeHttp> api(new KServeHttp(service, std::move(options)));
  if (!pattern.empty()) {
    re2::RE2::Options quiet;
    quiet.set_log_errors(false);
    api->forwarded_ = std::make_unique<re2::RE2>(pattern, quiet);
    if (!api->forwarded_->ok()) {
      return invalid_argument("header pattern '", printable(pattern),
                              "': ", api->forwarded_->error());
    }
  }
  return std::shared_ptr<const KServeHttp>(std::move(api));
}

void KServeHttp::handle(ExchangePtr exchange) const {
  const HttpRequest& request = exchange->request();
  PathNames names;
  const HttpRoute* route = find_route(request.path, &names);
  if (route == nullptr) return exchange->respond(error_response(404, "Not Found"));
  if (const AccessKey* key = options_.restrictions.find(route->group);
      key != nullptr && !equals_in_constant_time(request.header(key->header), key->value)) {
    return exchange->respond(error_response(
        403, str_cat("This API is restricted, expecting header '", key->header, "'")));
  }
  if (!allows_method(*route, request.method)) {
    HttpResponse response = error_response(405, "Method Not Allowed");
    std::string allowed(route->methods);
    if (const auto space = allowed.find(' '); space != std::string::npos) {
      allowed.replace(space, 1, ", ");
    }
    response.headers.emplace_back("Allow", std::move(allowed));
    return exchange->respond(std::move(response));
  }
  switch (route->call) {
    case HttpCall::kInfer: return infer(exchange, names);
    case HttpCall::kGenerate: return generate(exchange, names, false);
    case HttpCall::kGenerateStream: return generate(exchange, names, true);
    case HttpCall::kRepositoryLoad: return load(exchange, names);
    case HttpCall::kRepositoryUnload: return unload(exchange, names);
    default: return exchange->respond(answer(route->call, request, names));
  }
}

HttpResponse KServeHttp::answer(HttpCall call, const HttpRequest& request,
                                const PathNames& names) const {
  switch (call) {
    case HttpCall::kServerLive: return truth_response(service_.is_live());
    case HttpCall::kServerReady: return truth_response(service_.is_ready());
    case HttpCall::kServerMetadata: {
      inference::ServerMetadataResponse message;
      encode_server_metadata(service_.server_metadata(), &message);
      return proto_response(message);
    }
    case HttpCall::kModelReady: {
      const auto is_ready = service_.is_model_ready(names.model, names.version);
      return is_ready.ok() ? truth_response(*is_ready) : error_response(is_ready.status());
    }
    case HttpCall::kModelMetadata: {
      const auto metadata = service_.model_metadata(names.model, names.version);
      if (!metadata.ok()) return error_response(metadata.status());
      inference::ModelMetadataResponse message;
      encode_metadata(*metadata, &message);
      return proto_response(message);
    }
    case HttpCall::kModelConfig: {
      const auto config = service_.model_config(names.model, names.version);
      return config.ok() ? proto_response(*config) : error_response(config.status());
    }
    case HttpCall::kModelStatistics: {
      const auto entries = service_.statistics(names.model, names.version);
      if (!entries.ok()) return error_response(entries.status());
      inference::ModelStatisticsResponse message;
      encode_statistics(*entries, &message);
      return proto_response(message);
    }
    case HttpCall::kRepositoryIndex: return repository_index(request, names);
    case HttpCall::kLogging: return logging(request);
    case HttpCall::kTraceSetting: return trace_setting(request, names);
    case HttpCall::kSystemStatus:
    case HttpCall::kSystemRegister:
    case HttpCall::kSystemUnregister: return system_memory(call, request, names);
    case HttpCall::kCudaStatus:
    case HttpCall::kCudaRegister:
    case HttpCall::kCudaUnregister: return cuda_memory(call, request, names);
    default: return error_response(unimplemented("this call is not supported by this server"));
  }
}

}  // namespace tutti::server
