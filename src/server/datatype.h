// Element types under the names of the KServe protocol ("FP32") and the numbers of config.pbtxt.
#pragma once

#include <model_config.pb.h>

#include <string_view>

#include "base/dtype.h"
#include "base/status.h"

namespace tutti::server {

// "FP32", "BYTES"; "INVALID" for kUndefined.
std::string_view protocol_type_name(DType dtype);
// INVALID_ARGUMENT names the text and lists what is known.
Result<DType> parse_protocol_type(std::string_view name);

inference::DataType config_type(DType dtype);
// INVALID_ARGUMENT for TYPE_INVALID and numbers outside the enumeration.
Result<DType> from_config_type(inference::DataType type);

}  // namespace tutti::server
