// Tensors in NumPy's .npy files.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"
#include "base/tensor.h"

namespace tutti {

// Reads versions 1 to 3 in C order, little-endian. bf16 has no NumPy type; ml_dtypes saves it as
// two opaque bytes ('V2'), which reads as bf16 here. Errors name the file and what was expected:
// another order or type, a header that does not parse, content shorter or longer than the shape.
Result<Tensor> read_npy(const std::string& path);
Result<Tensor> read_npy_bytes(std::span<const std::byte> bytes);

// Version 1. bf16 is written as 'V2'. The file appears whole or not at all.
Status write_npy(const Tensor& tensor, const std::string& path);

}  // namespace tutti
