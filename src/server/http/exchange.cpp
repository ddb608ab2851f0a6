#include "server/http/exchange.h"

#include "server/http/text.h"
#include "server/json/write.h"

namespace tutti::server {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equals_ignoring_case(key, name)) return value;
  }
  return {};
}

int http_status(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return 200;
    case StatusCode::kInvalidArgument:
    case StatusCode::kAlreadyExists:
    case StatusCode::kCancelled: return 400;
    case StatusCode::kNotFound: return 404;
    case StatusCode::kUnimplemented: return 501;
    case StatusCode::kUnavailable:
    case StatusCode::kResourceExhausted: return 503;
    case StatusCode::kDeadlineExceeded: return 504;
    case StatusCode::kInternal: break;
  }
  return 500;
}

HttpResponse error_response(int http_status, std::string_view message) {
  HttpResponse response;
  response.status = http_status;
  response.text = str_cat("{\"error\":", json_string(message), "}");
  return response;
}

HttpResponse error_response(const Status& status) {
  return error_response(http_status(status.code()), status.message());
}

}  // namespace tutti::server
