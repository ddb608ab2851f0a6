#include "server/grpc/status.h"

#include <string>

namespace tutti::server {
namespace {

grpc::StatusCode grpc_code(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return grpc::StatusCode::OK;
    case StatusCode::kInvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
    case StatusCode::kNotFound: return grpc::StatusCode::NOT_FOUND;
    case StatusCode::kAlreadyExists: return grpc::StatusCode::ALREADY_EXISTS;
    case StatusCode::kUnavailable: return grpc::StatusCode::UNAVAILABLE;
    case StatusCode::kUnimplemented: return grpc::StatusCode::UNIMPLEMENTED;
    case StatusCode::kInternal: return grpc::StatusCode::INTERNAL;
    case StatusCode::kCancelled: return grpc::StatusCode::CANCELLED;
    case StatusCode::kDeadlineExceeded: return grpc::StatusCode::DEADLINE_EXCEEDED;
    case StatusCode::kResourceExhausted: return grpc::StatusCode::RESOURCE_EXHAUSTED;
  }
  return grpc::StatusCode::UNKNOWN;
}

}  // namespace

grpc::Status to_grpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  constexpr std::size_t kLongest = 2048;
  std::string message = status.message();
  if (message.size() > kLongest) message = message.substr(0, kLongest) + "...";
  return grpc::Status(grpc_code(status.code()), message);
}

}  // namespace tutti::server
