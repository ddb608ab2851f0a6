#include "base/dims.h"

#include <algorithm>

namespace tutti {

Result<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) {
    return invalid_argument("size ", a, " x ", b, " is negative or past 2^63 - 1");
  }
  return product;
}

Result<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) {
    return invalid_argument("size ", a, " + ", b, " is negative or past 2^63 - 1");
  }
  return sum;
}

namespace {

// Elements without regard to zeros: any product of some of the sizes is at most this.
Result<std::int64_t> checked_product(const Dims& dims) {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return invalid_argument("shape ", dims, " has a negative size");
    if (dim > 0 && __builtin_mul_overflow(product, dim, &product)) {
      return invalid_argument("shape ", dims, " has more than 2^63 - 1 elements, zeros left aside");
    }
  }
  return product;
}

bool has_zero(const Dims& dims) { return std::find(dims.begin(), dims.end(), 0) != dims.end(); }

}  // namespace

Result<std::int64_t> checked_element_count(const Dims& dims) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t product, checked_product(dims));
  return has_zero(dims) ? 0 : product;
}

Result<std::int64_t> checked_byte_size(DType dtype, const Dims& dims) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t product, checked_product(dims));
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(product, static_cast<std::int64_t>(dtype_size(dtype)), &bytes)) {
    return invalid_argument("shape ", dims, " of ", dtype_name(dtype), " is past 2^63 - 1 bytes");
  }
  return has_zero(dims) ? 0 : bytes;
}

std::int64_t element_count(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

Dims contiguous_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Result<Dims> broadcast_dims(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return invalid_argument("shapes ", a, " and ", b, " do not broadcast");
    }
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

Result<int> normalize_axis(std::int64_t axis, std::size_t rank) {
  const auto r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis >= r) {
    return invalid_argument("axis ", axis, " is outside [", -r, ", ", r, ")");
  }
  return static_cast<int>(axis < 0 ? axis + r : axis);
}

}  // namespace tutti
