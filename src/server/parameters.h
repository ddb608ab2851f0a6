// Parameters that requests carry by name, as the protocol's extensions define them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/infer.h"

namespace tutti::server {

using ParameterMap = std::map<std::string, ParameterValue>;

// Acts on the request's own parameters: `timeout` (microseconds) sets the deadline, the earlier one
// counting. UNIMPLEMENTED for a sequence; INVALID_ARGUMENT names a parameter of the wrong kind.
// Parameters that nobody knows are left for the model.
Status apply_parameters(TimePoint arrived, InferRequest* request);

// What the parameters of one input or requested output ask for.
struct TensorParameters {
  std::optional<SharedMemoryRef> shared_memory;
  std::uint32_t class_count = 0;
  std::optional<bool> is_binary;             // binary_data: HTTP, outputs
  std::optional<std::uint64_t> binary_size;  // binary_data_size: HTTP, inputs
};

// `label` names the tensor in messages ("input 'x'"). INVALID_ARGUMENT names a parameter of the
// wrong kind, an offset or size without a region, and a region without a size.
Result<TensorParameters> parse_tensor_parameters(std::string_view label,
                                                 const ParameterMap& parameters);

}  // namespace tutti::server
