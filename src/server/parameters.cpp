#include "server/parameters.h"

#include <algorithm>
#include <limits>
#include <utility>

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

Status apply_parameters(TimePoint arrived, InferRequest* request) {
  const ParameterMap& parameters = request->parameters;
  if (const auto sequence = parameters.find("sequence_id");
      sequence != parameters.end() && !is_nothing(sequence->second)) {
    return unimplemented(
        "parameter 'sequence_id': sequences are not supported, expected it to be absent or 0");
  }
  const auto timeout = parameters.find("timeout");
  if (timeout == parameters.end()) return Status();
  TUTTI_ASSIGN_OR_RETURN(const std::uint64_t us, as_count("timeout", timeout->second));
  // 0 means none, and what no clock reaches is none either.
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 50;
  if (us == 0 || us > kLongest) return Status();
  const TimePoint deadline = arrived + std::chrono::microseconds(us);
  if (!request->deadline || deadline < *request->deadline) request->deadline = deadline;
  return Status();
}

Result<TensorParameters> parse_tensor_parameters(std::string_view label,
                                                 const ParameterMap& parameters) {
  TensorParameters parsed;
  SharedMemoryRef memory;
  bool has_region = false;
  bool has_place = false;
  const auto count = [&](const auto& parameter) -> Result<std::uint64_t> {
    auto value = as_count(parameter.first, parameter.second);
    return value.ok() ? value : value.status().with_context(label);
  };
  for (const auto& parameter : parameters) {
    const auto& [name, value] = parameter;
    if (name == "shared_memory_region") {
      const auto* region = std::get_if<std::string>(&value);
      if (region == nullptr) {
        return invalid_argument(label, ": parameter 'shared_memory_region' is no text");
      }
      memory.region = *region;
      has_region = true;
    } else if (name == "shared_memory_offset") {
      TUTTI_ASSIGN_OR_RETURN(memory.offset, count(parameter));
      has_place = true;
    } else if (name == "shared_memory_byte_size") {
      TUTTI_ASSIGN_OR_RETURN(memory.byte_size, count(parameter));
      has_place = true;
    } else if (name == "classification") {
      TUTTI_ASSIGN_OR_RETURN(const std::uint64_t classes, count(parameter));
      parsed.class_count = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(classes, std::numeric_limits<std::uint32_t>::max()));
    } else if (name == "binary_data_size") {
      TUTTI_ASSIGN_OR_RETURN(parsed.binary_size, count(parameter));
    } else if (name == "binary_data") {
      const auto* is_binary = std::get_if<bool>(&value);
      if (is_binary == nullptr) {
        return invalid_argument(label, ": parameter 'binary_data' is neither true nor false");
      }
      parsed.is_binary = *is_binary;
    }
  }
  if (has_region != has_place || (has_region && memory.byte_size == 0)) {
    return invalid_argument(label,
                            ": shared memory needs the parameters 'shared_memory_region' and "
                            "'shared_memory_byte_size', a number above 0");
  }
  if (has_region) parsed.shared_memory = std::move(memory);
  return parsed;
}

}  // namespace tutti::server
