// Parameters that requests carry by name, as the protocol's extensions define them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/infer.h"

namespace tutti::server {

using ParameterMap = std::map<std::string, ParameterValue>;

// Acts on the request's own parameters: `timeout` (microseconds) and `priority` go to its fields.
// UNIMPLEMENTED for a sequence; INVALID_ARGUMENT names a parameter of the wrong kind. Parameters
// that nobody knows are left for the model.
Status apply_parameters(InferRequest* request);

// Parameters of one input or requested output; `label` names it in messages ("input 'x'").
// UNIMPLEMENTED for shared memory and classification.
Status check_tensor_parameters(std::string_view label, const ParameterMap& parameters);

}  // namespace tutti::server
