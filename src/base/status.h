// Status and Result<T>: how errors cross module borders. Both must be used.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/str_cat.h"

namespace tutti {

// The codes map one to one onto gRPC's and Triton's (src/server translates).
enum class StatusCode {
  kOk,
  kInvalidArgument,
  kNotFound,
  kAlreadyExists,
  kUnavailable,
  kUnimplemented,
  kInternal,
  kCancelled,
  kDeadlineExceeded,
  kResourceExhausted,
};

std::string_view status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Puts `context` and ": " in front of the message; a success stays as it is.
  Status with_context(std::string_view context) const;

  std::string to_string() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

template <class... Args>
Status invalid_argument(const Args&... args) {
  return Status(StatusCode::kInvalidArgument, str_cat(args...));
}
template <class... Args>
Status not_found(const Args&... args) {
  return Status(StatusCode::kNotFound, str_cat(args...));
}
template <class... Args>
Status already_exists(const Args&... args) {
  return Status(StatusCode::kAlreadyExists, str_cat(args...));
}
template <class... Args>
Status unavailable(const Args&... args) {
  return Status(StatusCode::kUnavailable, str_cat(args...));
}
template <class... Args>
Status unimplemented(const Args&... args) {
  return Status(StatusCode::kUnimplemented, str_cat(args...));
}
template <class... Args>
Status internal_error(const Args&... args) {
  return Status(StatusCode::kInternal, str_cat(args...));
}

// A value or the error that kept it from being made. Reading the value of an error is a bug.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    if (status_.ok()) status_ = internal_error("Result made from an OK status without a value");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

inline const Status& as_status(const Status& status) { return status; }
template <class T>
const Status& as_status(const Result<T>& result) {
  return result.status();
}

}  // namespace tutti

#define TUTTI_CONCAT_INNER(a, b) a##b
#define TUTTI_CONCAT(a, b) TUTTI_CONCAT_INNER(a, b)

#define TUTTI_RETURN_IF_ERROR(expr)                        \
  do {                                                     \
    if (auto status_ = (expr); !status_.ok()) {            \
      return ::tutti::Status(::tutti::as_status(status_)); \
    }                                                      \
  } while (0)

#define TUTTI_ASSIGN_OR_RETURN(lhs, expr) \
  TUTTI_ASSIGN_OR_RETURN_IMPL(TUTTI_CONCAT(result_, __LINE__), lhs, expr)
#define TUTTI_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                \
  if (!result.ok()) return result.status();            \
  lhs = *std::move(result)
