#include "comm/window_fill.h"

#include <cstring>
#include <limits>

#include "base/dispatch.h"

namespace tutti {

Result<std::vector<std::byte>> edge_number(WindowEdge edge, DType dtype) {
  std::vector<std::byte> number(dtype_size(dtype), std::byte{0});
  if (edge != WindowEdge::kLowest) return number;
  TUTTI_RETURN_IF_ERROR(dispatch_dtype(dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    C lowest = std::numeric_limits<C>::lowest();
    if constexpr (std::numeric_limits<C>::has_infinity) {
      lowest = -std::numeric_limits<C>::infinity();
    }
    const T value = static_cast<T>(lowest);
    std::memcpy(number.data(), &value, sizeof(T));
    return {};
  }));
  return number;
}

}  // namespace tutti
