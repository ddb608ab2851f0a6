// Inputs that a client sends as typed protobuf fields instead of raw bytes.
#pragma once

#include <grpc_service.pb.h>

#include <cstddef>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tutti::server {

// Row-major bytes of `contents` for elements of `dtype`. They lie in the message where the field
// has the element's width, else in a new buffer of `converted`. INVALID_ARGUMENT: another field
// than the datatype's is set, a value is outside the datatype's range, fp16 and bf16 (raw only).
Result<std::span<const std::byte>> contents_bytes(const inference::InferTensorContents& contents,
                                                  DType dtype,
                                                  std::list<std::vector<std::byte>>* converted);

}  // namespace tutti::server
