#include "onnx/tensor_proto.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "graph/graph.h"
#include "onnx.pb.h"

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX raw data is little-endian");

// A byte other than 0 and 1 is no bool to C++.
bool is_clean_bool(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; });
}

Result<Tensor> copy_bytes(DType dtype, const Dims& dims, std::span<const std::byte> bytes) {
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(dtype, dims));
  std::byte* target = tensor.mutable_data();
  if (dtype == DType::kBool) {
    std::transform(bytes.begin(), bytes.end(), target,
                   [](std::byte b) { return b == std::byte{0} ? b : std::byte{1}; });
  } else if (!bytes.empty()) {
    std::memcpy(target, bytes.data(), bytes.size());
  }
  return tensor;
}

Result<Tensor> from_external(const onnx::TensorProto& proto, DType dtype, const Dims& dims,
                             std::uint64_t needed, ExternalFiles* files) {
  TUTTI_ASSIGN_OR_RETURN(const ExternalLocation location, parse_external_location(proto));
  const std::uint64_t length = location.length.value_or(needed);
  if (length != needed) {
    return invalid_argument("external data has ", length, " bytes, ",
                            TensorType{dtype, to_shape(dims)}, " needs ", needed);
  }
  if (files == nullptr) return invalid_argument("external data is not allowed here");
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<MappedFile> file, files->open(location.file));
  TUTTI_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                         file->slice(location.offset, length));
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % dtype_size(dtype) == 0;
  if (!aligned || (dtype == DType::kBool && !is_clean_bool(bytes))) {
    return copy_bytes(dtype, dims, bytes);
  }
  return Tensor::view(dtype, dims, bytes.data(), file);
}

// The repeated field that holds elements of a type, after onnx.proto.
template <class T, class Field>
Result<Tensor> from_field(const char* name, const Field& field, DType dtype, const Dims& dims,
                          std::int64_t count) {
  if (field.size() != count) {
    return invalid_argument(name, " has ", field.size(), " elements, ",
                            TensorType{dtype, to_shape(dims)}, " needs ", count);
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(dtype, dims));
  T* target = tensor.mutable_data_as<T>();
  using Source = typename Field::value_type;
  for (const Source value : field) {
    if constexpr (std::is_same_v<T, bool>) {
      *target++ = value != 0;
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      // The bits of a 16-bit float in an int32, sign-extended by some writers.
      if (value < std::numeric_limits<std::int16_t>::min() ||
          value > std::numeric_limits<std::uint16_t>::max()) {
        return invalid_argument(name, " holds ", value, ", not the bits of a 16-bit float");
      }
      (target++)->bits = static_cast<std::uint16_t>(value);
    } else {
      if (static_cast<Source>(static_cast<T>(value)) != value && value == value) {
        return invalid_argument(name, " holds ", value, ", out of range for ", dtype_name(dtype));
      }
      *target++ = static_cast<T>(value);
    }
  }
  return tensor;
}

Result<Tensor> from_typed_fields(const onnx::TensorProto& proto, DType dtype, const Dims& dims,
                                 std::int64_t count) {
  const auto int32 = [&]<class T>() {
    return from_field<T>("int32_data", proto.int32_data(), dtype, dims, count);
  };
  const auto uint64 = [&]<class T>() {
    return from_field<T>("uint64_data", proto.uint64_data(), dtype, dims, count);
  };
  switch (dtype) {
    case DType::kFloat32:
      return from_field<float>("float_data", proto.float_data(), dtype, dims, count);
    case DType::kFloat64:
      return from_field<double>("double_data", proto.double_data(), dtype, dims, count);
    case DType::kInt64:
      return from_field<std::int64_t>("int64_data", proto.int64_data(), dtype, dims, count);
    case DType::kUInt32: return uint64.operator()<std::uint32_t>();
    case DType::kUInt64: return uint64.operator()<std::uint64_t>();
    case DType::kFloat16: return int32.operator()<Half>();
    case DType::kBFloat16: return int32.operator()<BFloat16>();
    case DType::kInt8: return int32.operator()<std::int8_t>();
    case DType::kInt16: return int32.operator()<std::int16_t>();
    case DType::kInt32: return int32.operator()<std::int32_t>();
    case DType::kUInt8: return int32.operator()<std::uint8_t>();
    case DType::kUInt16: return int32.operator()<std::uint16_t>();
    case DType::kBool: return int32.operator()<bool>();
    default: return invalid_argument("element type ", dtype_name(dtype), " holds no numbers");
  }
}

Result<Tensor> read_tensor(const onnx::TensorProto& proto, ExternalFiles* files) {
  if (proto.has_segment()) return invalid_argument("segments are not supported");
  TUTTI_ASSIGN_OR_RETURN(const DType dtype, dtype_from_proto(proto.data_type()));
  const Dims dims(proto.dims().begin(), proto.dims().end());
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t count, checked_element_count(dims));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t bytes, checked_byte_size(dtype, dims));
  const auto needed = static_cast<std::uint64_t>(bytes);

  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    return from_external(proto, dtype, dims, needed, files);
  }
  if (!proto.has_raw_data()) return from_typed_fields(proto, dtype, dims, count);
  const std::string& raw = proto.raw_data();
  if (raw.size() != needed) {
    return invalid_argument("raw data has ", raw.size(), " bytes, ",
                            TensorType{dtype, to_shape(dims)}, " needs ", needed);
  }
  return copy_bytes(dtype, dims, std::as_bytes(std::span(raw)));
}

}  // namespace

Result<DType> dtype_from_proto(int data_type) {
  Result<DType> dtype = dtype_from_onnx(data_type);
  if (dtype.ok() && *dtype != DType::kString) return dtype;
  if (!onnx::TensorProto::DataType_IsValid(data_type)) return dtype.status();
  return unimplemented(
      "element type ",
      onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(data_type)),
      " is not supported");
}

Result<Tensor> tensor_from_proto(const onnx::TensorProto& proto, ExternalFiles* files) {
  Result<Tensor> tensor = read_tensor(proto, files);
  if (tensor.ok()) return tensor;
  return tensor.status().with_context(str_cat("tensor '", proto.name(), "'"));
}

void tensor_to_proto(const Tensor& tensor, onnx::TensorProto* proto) {
  proto->set_data_type(dtype_to_onnx(tensor.dtype()));
  for (const std::int64_t size : tensor.dims()) proto->add_dims(size);
  proto->set_raw_data(tensor.data(), tensor.byte_size());
}

}  // namespace tutti
