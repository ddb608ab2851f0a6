// Tensors as JSON arrays, in the protocol's forms: numbers, true and false for BOOL, strings of
// UTF-8 for BYTES. Values that are no number are written and read as NaN, Infinity and -Infinity.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/status.h"
#include "server/byte_buffer.h"
#include "server/json/reader.h"

namespace tutti::server {

// Elements of `json`, an array, flat or nested (or one value), in the order in which they stand;
// BYTES with their 4-byte lengths. INVALID_ARGUMENT names the element, its value and what was
// expected: whole numbers inside an integer type's range, numbers inside a floating type's.
// RESOURCE_EXHAUSTED without memory.
Result<ByteBuffer> tensor_from_json(std::string_view json, DType dtype);

// Appends "[...]", flat. `data` are whole elements. INVALID_ARGUMENT for BYTES that are no UTF-8,
// which JSON cannot hold.
Status append_tensor_json(std::span<const std::byte> data, DType dtype, std::string* out);

// The elements alone, without brackets: "1,2,3".
Status append_elements_json(std::span<const std::byte> data, DType dtype, std::string* out);

}  // namespace tutti::server
