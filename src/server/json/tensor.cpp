#include "server/json/tensor.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "base/utf8.h"
#include "server/datatype.h"
#include "server/json/write.h"

namespace tutti::server {
namespace {

using Kind = JsonReader::Kind;

std::string number_text(const JsonNumber& number) {
  return std::visit([](auto value) { return str_cat(value); }, number);
}

// False when `number` is no value of T.
template <class T>
bool convert(const JsonNumber& number, T* value) {
  if constexpr (std::is_integral_v<T>) {
    return std::visit(
        [&](auto from) {
          if constexpr (std::is_floating_point_v<decltype(from)>) {
            return false;
          } else {
            *value = static_cast<T>(from);
            return std::in_range<T>(from);
          }
        },
        number);
  } else {
    const double real = std::visit([](auto from) { return static_cast<double>(from); }, number);
    if constexpr (std::is_same_v<T, double>) {
      *value = real;
    } else if constexpr (std::is_same_v<T, float>) {
      *value = static_cast<float>(real);
    } else {
      *value = T(static_cast<float>(real));
    }
    return !std::isfinite(real) || std::isfinite(static_cast<double>(static_cast<float>(*value))) ||
           std::is_same_v<T, double>;
  }
}

class ElementReader {
 public:
  ElementReader(std::string_view json, DType dtype) : reader_(json), dtype_(dtype) {}

  Status read() {
    TUTTI_RETURN_IF_ERROR(read_value());
    return reader_.expect_end();
  }
  ByteBuffer take() { return std::move(bytes_); }

 private:
  Status read_value() {
    TUTTI_ASSIGN_OR_RETURN(const Kind kind, reader_.peek());
    if (kind == Kind::kArray) return reader_.read_array([this] { return read_value(); });
    TUTTI_RETURN_IF_ERROR(read_element(kind));
    ++count_;
    return Status();
  }

  Status read_element(Kind kind) {
    switch (dtype_) {
      case DType::kBool: return read_truth(kind);
      case DType::kString: return read_text(kind);
      case DType::kInt8: return read_as<std::int8_t>(kind);
      case DType::kInt16: return read_as<std::int16_t>(kind);
      case DType::kInt32: return read_as<std::int32_t>(kind);
      case DType::kInt64: return read_as<std::int64_t>(kind);
      case DType::kUInt8: return read_as<std::uint8_t>(kind);
      case DType::kUInt16: return read_as<std::uint16_t>(kind);
      case DType::kUInt32: return read_as<std::uint32_t>(kind);
      case DType::kUInt64: return read_as<std::uint64_t>(kind);
      case DType::kFloat16: return read_as<Half>(kind);
      case DType::kBFloat16: return read_as<BFloat16>(kind);
      case DType::kFloat32: return read_as<float>(kind);
      case DType::kFloat64: return read_as<double>(kind);
      case DType::kUndefined: break;
    }
    return invalid_argument("no datatype");
  }

  template <class T>
  Status read_as(Kind kind) {
    if (kind != Kind::kNumber) return wrong_kind("a number");
    TUTTI_ASSIGN_OR_RETURN(const JsonNumber number, reader_.read_number());
    T value{};
    if (!convert(number, &value)) {
      return invalid_argument("element ", count_, " is ", number_text(number), ", outside ",
                              protocol_type_name(dtype_));
    }
    return keep(&value, sizeof(value));
  }

  Status read_truth(Kind kind) {
    std::uint8_t value = 0;
    if (kind == Kind::kBool) {
      TUTTI_ASSIGN_OR_RETURN(const bool truth, reader_.read_bool());
      value = truth ? 1 : 0;
    } else {
      if (kind != Kind::kNumber) return wrong_kind("true or false");
      TUTTI_ASSIGN_OR_RETURN(const JsonNumber number, reader_.read_number());
      if (!convert(number, &value) || value > 1) return wrong_kind("true, false, 1 or 0");
    }
    return keep(&value, 1);
  }

  Status read_text(Kind kind) {
    if (kind != Kind::kString) return wrong_kind("a string");
    TUTTI_ASSIGN_OR_RETURN(const std::string text, reader_.read_string());
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
      return invalid_argument("element ", count_, " has ", text.size(),
                              " bytes, expected less than 2^32");
    }
    const auto length = static_cast<std::uint32_t>(text.size());
    TUTTI_RETURN_IF_ERROR(keep(&length, sizeof(length)));
    return keep(text.data(), text.size());
  }

  Status wrong_kind(std::string_view expected) const {
    return invalid_argument("element ", count_, " is of another kind than ",
                            protocol_type_name(dtype_), ", expected ", expected);
  }

  Status keep(const void* bytes, std::size_t count) {
    if (bytes_.append(bytes, count)) return Status();
    return Status(StatusCode::kResourceExhausted, "no memory left for the request's data");
  }

  JsonReader reader_;
  const DType dtype_;
  ByteBuffer bytes_;
  std::size_t count_ = 0;
};

void append_number(double value, std::string_view digits, std::string* out) {
  if (std::isnan(value)) {
    out->append("NaN");
  } else if (std::isinf(value)) {
    out->append(value < 0 ? "-Infinity" : "Infinity");
  } else {
    out->append(digits);
    // So that readers which tell whole numbers from real ones see a real one.
    if (digits.find_first_of(".e") == std::string_view::npos) out->append(".0");
  }
}

template <class T>
void append_value(T value, std::string* out) {
  char digits[32];  // the shortest text that reads back as the same value
  if constexpr (std::is_integral_v<T>) {
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    out->append(digits, end);
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    append_number(static_cast<double>(value),
                  std::string_view(digits, static_cast<std::size_t>(end - digits)), out);
  } else {
    append_value(static_cast<float>(value), out);
  }
}

template <class T>
Status append_all(std::span<const std::byte> data, std::string* out) {
  for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + at, sizeof(T));
    if (at > 0) out->push_back(',');
    append_value(value, out);
  }
  return Status();
}

Status append_truths(std::span<const std::byte> data, std::string* out) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (i > 0) out->push_back(',');
    out->append(data[i] == std::byte{0} ? "false" : "true");
  }
  return Status();
}

Status append_texts(std::span<const std::byte> data, std::string* out) {
  std::size_t count = 0;
  for (std::size_t at = 0; at + 4 <= data.size(); ++count) {
    std::uint32_t length = 0;
    std::memcpy(&length, data.data() + at, 4);
    at += 4;
    if (length > data.size() - at) return internal_error("BYTES element ", count, " is cut off");
    const std::string_view text(reinterpret_cast<const char*>(data.data() + at), length);
    if (!is_utf8(text)) {
      return invalid_argument("element ", count,
                              " is no UTF-8, which JSON cannot hold; expected the output to be "
                              "asked for as binary data");
    }
    if (count > 0) out->push_back(',');
    append_json_string(text, out);
    at += length;
  }
  return Status();
}

}  // namespace

Result<ByteBuffer> tensor_from_json(std::string_view json, DType dtype) {
  ElementReader elements(json, dtype);
  TUTTI_RETURN_IF_ERROR(elements.read());
  return elements.take();
}

Status append_elements_json(std::span<const std::byte> data, DType dtype, std::string* out) {
  switch (dtype) {
    case DType::kBool: return append_truths(data, out);
    case DType::kString: return append_texts(data, out);
    case DType::kInt8: return append_all<std::int8_t>(data, out);
    case DType::kInt16: return append_all<std::int16_t>(data, out);
    case DType::kInt32: return append_all<std::int32_t>(data, out);
    case DType::kInt64: return append_all<std::int64_t>(data, out);
    case DType::kUInt8: return append_all<std::uint8_t>(data, out);
    case DType::kUInt16: return append_all<std::uint16_t>(data, out);
    case DType::kUInt32: return append_all<std::uint32_t>(data, out);
    case DType::kUInt64: return append_all<std::uint64_t>(data, out);
    case DType::kFloat16: return append_all<Half>(data, out);
    case DType::kBFloat16: return append_all<BFloat16>(data, out);
    case DType::kFloat32: return append_all<float>(data, out);
    case DType::kFloat64: return append_all<double>(data, out);
    case DType::kUndefined: break;
  }
  return internal_error("no datatype");
}

Status append_tensor_json(std::span<const std::byte> data, DType dtype, std::string* out) {
  out->push_back('[');
  TUTTI_RETURN_IF_ERROR(append_elements_json(data, dtype, out));
  out->push_back(']');
  return Status();
}

}  // namespace tutti::server
