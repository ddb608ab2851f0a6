// Element types. Names follow ONNX; the numeric values are ours and never reach a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace tutti {

enum class DType : std::uint8_t {
  kUndefined,
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kBool,
  kString,  // only at the protocol border (BYTES); no kernel takes it
};

// Bytes of one element; 0 for kUndefined and kString.
std::size_t dtype_size(DType dtype);

// Our text form: f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool string.
std::string_view dtype_name(DType dtype);
Result<DType> parse_dtype(std::string_view name);

bool is_floating(DType dtype);  // f16, bf16, f32, f64
bool is_integer(DType dtype);   // signed or unsigned, not bool

// ONNX TensorProto.DataType numbers (onnx.proto); an unknown number is an error.
int dtype_to_onnx(DType dtype);
Result<DType> dtype_from_onnx(int data_type);

}  // namespace tutti
