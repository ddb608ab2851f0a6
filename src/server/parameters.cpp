#include "server/parameters.h"

namespace tutti::server {
namespace {

// A count that a client may send signed or unsigned.
Result<std::uint64_t> as_count(std::string_view name, const ParameterValue& value) {
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr && *number >= 0) {
    return static_cast<std::uint64_t>(*number);
  }
  return invalid_argument("parameter '", name, "' is no whole number >= 0");
}

bool is_nothing(const ParameterValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text->empty();
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number == 0;
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number == 0;
  return false;
}

}  // namespace

Status apply_parameters(InferRequest* request) {
  const ParameterMap& parameters = request->parameters;
  if (const auto sequence = parameters.find("sequence_id");
      sequence != parameters.end() && !is_nothing(sequence->second)) {
    return unimplemented(
        "parameter 'sequence_id': sequences are not supported, expected it to be absent or 0");
  }
  if (const auto priority = parameters.find("priority"); priority != parameters.end()) {
    TUTTI_ASSIGN_OR_RETURN(request->priority, as_count("priority", priority->second));
  }
  const auto timeout = parameters.find("timeout");
  if (timeout == parameters.end()) return Status();
  TUTTI_ASSIGN_OR_RETURN(const std::uint64_t us, as_count("timeout", timeout->second));
  // 0 means none, and what no clock reaches is none either.
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 50;
  if (us == 0 || us > kLongest) return Status();
  request->timeout = std::chrono::microseconds(us);
  return Status();
}

Status check_tensor_parameters(std::string_view label, const ParameterMap& parameters) {
  for (const auto& [name, value] : parameters) {
    if (name.starts_with("shared_memory_")) {
      return unimplemented(label, ": parameter '", name,
                           "': shared memory is not supported, expected the data in the request");
    }
    if (name == "classification" && !is_nothing(value)) {
      return unimplemented(label, ": parameter 'classification' is not supported");
    }
  }
  return Status();
}

}  // namespace tutti::server
