// The one place that turns a run-time DType into a C++ type.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/half.h"
#include "base/status.h"

namespace tutti {

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the storage type of `dtype`. f returns Status.
template <class F>
Status dispatch_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32: return f(TypeTag<float>{});
    case DType::kFloat64: return f(TypeTag<double>{});
    case DType::kFloat16: return f(TypeTag<Half>{});
    case DType::kBFloat16: return f(TypeTag<BFloat16>{});
    case DType::kInt8: return f(TypeTag<std::int8_t>{});
    case DType::kInt16: return f(TypeTag<std::int16_t>{});
    case DType::kInt32: return f(TypeTag<std::int32_t>{});
    case DType::kInt64: return f(TypeTag<std::int64_t>{});
    case DType::kUInt8: return f(TypeTag<std::uint8_t>{});
    case DType::kUInt16: return f(TypeTag<std::uint16_t>{});
    case DType::kUInt32: return f(TypeTag<std::uint32_t>{});
    case DType::kUInt64: return f(TypeTag<std::uint64_t>{});
    case DType::kBool: return f(TypeTag<bool>{});
    default: return invalid_argument("element type ", dtype_name(dtype), " has no storage type");
  }
}

// The type to compute in: float for the 16-bit floats, T itself otherwise.
template <class T>
using ComputeType =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

}  // namespace tutti
