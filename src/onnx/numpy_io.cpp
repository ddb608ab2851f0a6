#include "onnx/numpy_io.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "onnx/npy_header.h"

namespace tutti {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;  // of the content, by the format

struct TypeCode {
  std::string_view code;
  DType dtype;
};
constexpr TypeCode kTypeCodes[] = {
    {"<f4", DType::kFloat32},  {"<f8", DType::kFloat64},  {"<f2", DType::kFloat16},
    {"<V2", DType::kBFloat16}, {"|V2", DType::kBFloat16}, {"|i1", DType::kInt8},
    {"<i2", DType::kInt16},    {"<i4", DType::kInt32},    {"<i8", DType::kInt64},
    {"|u1", DType::kUInt8},    {"<u2", DType::kUInt16},   {"<u4", DType::kUInt32},
    {"<u8", DType::kUInt64},   {"|b1", DType::kBool},
};

Result<DType> dtype_of_code(const std::string& code) {
  for (const TypeCode& candidate : kTypeCodes) {
    if (candidate.code == code) return candidate.dtype;
  }
  return unimplemented("element type '", code,
                       "' is not supported; expected little-endian numbers, such as '<f4'");
}

// Version and length of the header, from the first bytes of the file.
struct Preamble {
  std::size_t header_begin = 0;
  std::size_t header_size = 0;
};

Result<Preamble> read_preamble(std::string_view file) {
  if (file.substr(0, kMagic.size()) != kMagic || file.size() < 12) {
    return invalid_argument("is no .npy file");
  }
  const auto byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(file[i])}; };
  const std::size_t major = byte(6);
  if (major < 1 || major > 3) {
    return invalid_argument("has .npy version ", major, ", expected 1 to 3");
  }
  Preamble preamble;
  preamble.header_begin = major == 1 ? 10 : 12;
  preamble.header_size = byte(8) | byte(9) << 8;
  if (major > 1) preamble.header_size |= byte(10) << 16 | byte(11) << 24;
  if (preamble.header_size > file.size() - preamble.header_begin) {
    return invalid_argument("ends inside its header");
  }
  return preamble;
}

}  // namespace

Result<Tensor> read_npy_bytes(std::span<const std::byte> bytes) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TUTTI_ASSIGN_OR_RETURN(const Preamble preamble, read_preamble(file));
  TUTTI_ASSIGN_OR_RETURN(const NpyHeader header, parse_npy_header(file.substr(
                                                     preamble.header_begin, preamble.header_size)));
  if (header.fortran_order && header.dims.size() > 1) {
    return unimplemented("is in Fortran order; save it with numpy.ascontiguousarray");
  }
  TUTTI_ASSIGN_OR_RETURN(const DType dtype, dtype_of_code(header.descr));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t needed, checked_byte_size(dtype, header.dims));
  const auto content = bytes.subspan(preamble.header_begin + preamble.header_size);
  if (content.size() != static_cast<std::uint64_t>(needed)) {
    return invalid_argument("has ", content.size(), " bytes of content, shape ", header.dims,
                            " needs ", needed);
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(dtype, header.dims));
  if (dtype == DType::kBool) {  // a byte other than 0 and 1 is no bool to C++
    std::transform(content.begin(), content.end(), tensor.mutable_data(),
                   [](std::byte b) { return b == std::byte{0} ? b : std::byte{1}; });
  } else if (!content.empty()) {
    std::memcpy(tensor.mutable_data(), content.data(), content.size());
  }
  return tensor;
}

Result<Tensor> read_npy(const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<MappedFile> file, MappedFile::open(path));
  Result<Tensor> tensor = read_npy_bytes(file->bytes());
  if (tensor.ok()) return tensor;
  return Status(tensor.status().code(), str_cat("file '", path, "' ", tensor.status().message()));
}

Status write_npy(const Tensor& tensor, const std::string& path) {
  const auto code = std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes),
                                 [&](const TypeCode& c) { return c.dtype == tensor.dtype(); });
  if (code == std::end(kTypeCodes)) {
    return invalid_argument("a tensor of ", dtype_name(tensor.dtype()), " cannot be a .npy file");
  }
  std::string header = npy_header_text({std::string(code->code), false, tensor.dims()});
  const std::size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';

  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::create(path));
  const std::array<char, 4> version_and_size = {1, 0, static_cast<char>(header.size() & 0xff),
                                                static_cast<char>(header.size() >> 8)};
  TUTTI_RETURN_IF_ERROR(file->write(std::as_bytes(std::span(kMagic))));
  TUTTI_RETURN_IF_ERROR(file->write(std::as_bytes(std::span(version_and_size))));
  TUTTI_RETURN_IF_ERROR(file->write(std::as_bytes(std::span(header))));
  TUTTI_RETURN_IF_ERROR(file->write({tensor.data(), tensor.byte_size()}));
  return file->commit();
}

}  // namespace tutti
