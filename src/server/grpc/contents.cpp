#include "server/grpc/contents.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "server/datatype.h"

namespace tutti::server {
namespace {

using Contents = inference::InferTensorContents;
using Bytes = std::span<const std::byte>;
using Buffers = std::list<std::vector<std::byte>>;

struct Field {
  std::string_view name;
  int (Contents::*size)() const;
};

constexpr Field kFields[] = {
    {"bool_contents", &Contents::bool_contents_size},
    {"int_contents", &Contents::int_contents_size},
    {"int64_contents", &Contents::int64_contents_size},
    {"uint_contents", &Contents::uint_contents_size},
    {"uint64_contents", &Contents::uint64_contents_size},
    {"fp32_contents", &Contents::fp32_contents_size},
    {"fp64_contents", &Contents::fp64_contents_size},
    {"bytes_contents", &Contents::bytes_contents_size},
};

std::string_view field_for(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "bool_contents";
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32: return "int_contents";
    case DType::kInt64: return "int64_contents";
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32: return "uint_contents";
    case DType::kUInt64: return "uint64_contents";
    case DType::kFloat32: return "fp32_contents";
    case DType::kFloat64: return "fp64_contents";
    case DType::kString: return "bytes_contents";
    default: return "";
  }
}

template <class T>
Bytes in_place(const google::protobuf::RepeatedField<T>& values) {
  return std::as_bytes(std::span(values.data(), static_cast<std::size_t>(values.size())));
}

template <class Narrow, class Wide>
Result<Bytes> narrowed(const google::protobuf::RepeatedField<Wide>& values, DType dtype,
                       Buffers* buffers) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(values.size()) * sizeof(Narrow));
  for (int i = 0; i < values.size(); ++i) {
    const auto value = static_cast<Narrow>(values[i]);
    if (static_cast<Wide>(value) != values[i]) {
      return invalid_argument("element ", i, " is ", values[i], ", outside ",
                              protocol_type_name(dtype));
    }
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(Narrow), &value,
                sizeof(Narrow));
  }
  return Bytes(buffers->emplace_back(std::move(bytes)));
}

Bytes length_prefixed(const google::protobuf::RepeatedPtrField<std::string>& elements,
                      Buffers* buffers) {
  std::vector<std::byte>& bytes = buffers->emplace_back();
  for (const std::string& element : elements) {
    // A message is at most 2^31 - 1 bytes, so is each element.
    const auto length = static_cast<std::uint32_t>(element.size());
    const Bytes prefix = std::as_bytes(std::span(&length, 1));
    const Bytes content = std::as_bytes(std::span(element));
    bytes.insert(bytes.end(), prefix.begin(), prefix.end());
    bytes.insert(bytes.end(), content.begin(), content.end());
  }
  return bytes;
}

}  // namespace

Result<Bytes> contents_bytes(const Contents& contents, DType dtype, Buffers* converted) {
  const std::string_view expected = field_for(dtype);
  if (expected.empty()) {
    return invalid_argument("datatype ", protocol_type_name(dtype),
                            " has no typed contents, expected raw_input_contents");
  }
  for (const Field& field : kFields) {
    if (field.name != expected && (contents.*field.size)() > 0) {
      return invalid_argument("contents.", field.name, " is set, expected contents.", expected,
                              " for datatype ", protocol_type_name(dtype));
    }
  }
  switch (dtype) {
    case DType::kBool: return in_place(contents.bool_contents());
    case DType::kInt8: return narrowed<std::int8_t>(contents.int_contents(), dtype, converted);
    case DType::kInt16: return narrowed<std::int16_t>(contents.int_contents(), dtype, converted);
    case DType::kInt32: return in_place(contents.int_contents());
    case DType::kInt64: return in_place(contents.int64_contents());
    case DType::kUInt8: return narrowed<std::uint8_t>(contents.uint_contents(), dtype, converted);
    case DType::kUInt16: return narrowed<std::uint16_t>(contents.uint_contents(), dtype, converted);
    case DType::kUInt32: return in_place(contents.uint_contents());
    case DType::kUInt64: return in_place(contents.uint64_contents());
    case DType::kFloat32: return in_place(contents.fp32_contents());
    case DType::kFloat64: return in_place(contents.fp64_contents());
    default: return length_prefixed(contents.bytes_contents(), converted);
  }
}

}  // namespace tutti::server
