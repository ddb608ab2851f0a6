#include "server/datatype.h"

#include <string>

namespace tutti::server {
namespace {

struct TypeName {
  DType dtype;
  std::string_view protocol;
  inference::DataType config;
};

constexpr TypeName kTypes[] = {
    {DType::kBool, "BOOL", inference::TYPE_BOOL},
    {DType::kUInt8, "UINT8", inference::TYPE_UINT8},
    {DType::kUInt16, "UINT16", inference::TYPE_UINT16},
    {DType::kUInt32, "UINT32", inference::TYPE_UINT32},
    {DType::kUInt64, "UINT64", inference::TYPE_UINT64},
    {DType::kInt8, "INT8", inference::TYPE_INT8},
    {DType::kInt16, "INT16", inference::TYPE_INT16},
    {DType::kInt32, "INT32", inference::TYPE_INT32},
    {DType::kInt64, "INT64", inference::TYPE_INT64},
    {DType::kFloat16, "FP16", inference::TYPE_FP16},
    {DType::kFloat32, "FP32", inference::TYPE_FP32},
    {DType::kFloat64, "FP64", inference::TYPE_FP64},
    {DType::kString, "BYTES", inference::TYPE_STRING},
    {DType::kBFloat16, "BF16", inference::TYPE_BF16},
};

}  // namespace

std::string_view protocol_type_name(DType dtype) {
  for (const TypeName& type : kTypes) {
    if (type.dtype == dtype) return type.protocol;
  }
  return "INVALID";
}

Result<DType> parse_protocol_type(std::string_view name) {
  std::string known;
  for (const TypeName& type : kTypes) {
    if (type.protocol == name) return type.dtype;
    known += str_cat(known.empty() ? "" : ", ", type.protocol);
  }
  return invalid_argument("unknown datatype '", name, "', expected one of ", known);
}

inference::DataType config_type(DType dtype) {
  for (const TypeName& type : kTypes) {
    if (type.dtype == dtype) return type.config;
  }
  return inference::TYPE_INVALID;
}

Result<DType> from_config_type(inference::DataType type) {
  for (const TypeName& known : kTypes) {
    if (known.config == type) return known.dtype;
  }
  return invalid_argument("data_type ", static_cast<int>(type), " names no element type");
}

}  // namespace tutti::server
