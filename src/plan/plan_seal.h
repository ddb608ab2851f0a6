// The last bytes of a plan file: a digest of all bytes before them.
//
// They are a metadata entry "tutti.digest" of the ONNX model, in protobuf's wire format and of
// fixed length; protobuf merges concatenated messages, so the sealed file is still one ONNX model.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"

namespace tutti {

// Appends the seal to a serialised model.
void seal(std::string* bytes);

// The bytes before the seal. An error when there is none or a byte differs from when it was made.
Result<std::span<const std::byte>> unseal(std::span<const std::byte> bytes);

}  // namespace tutti
