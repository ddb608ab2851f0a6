#include "backends/abi/error.h"

#include <algorithm>
#include <cstring>

namespace tutti::abi {

static_assert(static_cast<int>(StatusCode::kOk) == TUTTI_OK);
static_assert(static_cast<int>(StatusCode::kInvalidArgument) == TUTTI_INVALID_ARGUMENT);
static_assert(static_cast<int>(StatusCode::kUnimplemented) == TUTTI_UNIMPLEMENTED);
static_assert(static_cast<int>(StatusCode::kDeadlineExceeded) == TUTTI_DEADLINE_EXCEEDED);
static_assert(static_cast<int>(StatusCode::kResourceExhausted) == TUTTI_RESOURCE_EXHAUSTED);

int report(const Status& status, tutti_error* error) {
  if (status.ok()) return 0;
  if (error == nullptr) return 1;
  error->code = static_cast<std::int32_t>(status.code());
  const std::size_t length = std::min(status.message().size(), sizeof error->message - 1);
  std::memcpy(error->message, status.message().data(), length);
  error->message[length] = '\0';
  return 1;
}

Status to_status(const tutti_error& error) {
  const std::string message(error.message, ::strnlen(error.message, sizeof error.message));
  const bool is_known = error.code > TUTTI_OK && error.code <= TUTTI_RESOURCE_EXHAUSTED;
  if (!is_known) return internal_error("code ", error.code, ": ", message);
  return Status(static_cast<StatusCode>(error.code), message);
}

}  // namespace tutti::abi
