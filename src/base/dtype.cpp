#include "base/dtype.h"

namespace tutti {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::size_t size;
  int onnx;
};

constexpr DTypeInfo kInfos[] = {
    {DType::kUndefined, "undefined", 0, 0}, {DType::kFloat32, "f32", 4, 1},
    {DType::kFloat64, "f64", 8, 11},        {DType::kFloat16, "f16", 2, 10},
    {DType::kBFloat16, "bf16", 2, 16},      {DType::kInt8, "i8", 1, 3},
    {DType::kInt16, "i16", 2, 5},           {DType::kInt32, "i32", 4, 6},
    {DType::kInt64, "i64", 8, 7},           {DType::kUInt8, "u8", 1, 2},
    {DType::kUInt16, "u16", 2, 4},          {DType::kUInt32, "u32", 4, 12},
    {DType::kUInt64, "u64", 8, 13},         {DType::kBool, "bool", 1, 9},
    {DType::kString, "string", 0, 8},
};

const DTypeInfo& info(DType dtype) { return kInfos[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t dtype_size(DType dtype) { return info(dtype).size; }
std::string_view dtype_name(DType dtype) { return info(dtype).name; }
int dtype_to_onnx(DType dtype) { return info(dtype).onnx; }

Result<DType> parse_dtype(std::string_view name) {
  for (const DTypeInfo& candidate : kInfos) {
    if (candidate.name == name) return candidate.dtype;
  }
  return invalid_argument("unknown element type '", name, "'");
}

Result<DType> dtype_from_onnx(int data_type) {
  for (const DTypeInfo& candidate : kInfos) {
    if (candidate.onnx == data_type && data_type != 0) return candidate.dtype;
  }
  return invalid_argument("ONNX element type ", data_type, " is not supported");
}

bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16;
}

bool is_integer(DType dtype) { return dtype >= DType::kInt8 && dtype <= DType::kUInt64; }

}  // namespace tutti
