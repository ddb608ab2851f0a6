// Concrete tensor sizes, with products that cannot overflow unnoticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tutti {

using Dims = std::vector<std::int64_t>;

// a * b and a + b, or an error that names both numbers. Operands must be >= 0.
Result<std::int64_t> checked_mul(std::int64_t a, std::int64_t b);
Result<std::int64_t> checked_add(std::int64_t a, std::int64_t b);

// Number of elements (1 for a scalar). Negative sizes and products past 2^63 - 1 are errors.
Result<std::int64_t> checked_element_count(const Dims& dims);
// The same in bytes.
Result<std::int64_t> checked_byte_size(DType dtype, const Dims& dims);

// For sizes that were checked when they came in: the product without a Result.
std::int64_t element_count(const Dims& dims);

// Row-major strides, in elements.
Dims contiguous_strides(const Dims& dims);

// NumPy's broadcasting of two shapes; the error names both.
Result<Dims> broadcast_dims(const Dims& a, const Dims& b);

// Axis in [-rank, rank) to [0, rank); the error names axis and rank.
Result<int> normalize_axis(std::int64_t axis, std::size_t rank);

}  // namespace tutti
