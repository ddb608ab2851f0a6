// Tensors of a request as bytes: their size against their shape, BYTES elements, their classes, and
// their texts, which read back as what they were.
#include <algorithm>
#include <cstring>

#include "fuzz/surface.h"
#include "server/classification.h"
#include "server/json/tensor.h"
#include "server/request_checks.h"

namespace tutti::fuzz {
namespace {

using namespace tutti::server;  // NOLINT: the whole file is about it

constexpr DType kTypes[] = {DType::kString,  DType::kBool,    DType::kInt8,     DType::kInt16,
                            DType::kInt32,   DType::kInt64,   DType::kUInt8,    DType::kUInt16,
                            DType::kUInt32,  DType::kUInt64,  DType::kFloat16,  DType::kBFloat16,
                            DType::kFloat32, DType::kFloat64, DType::kUndefined};

bool is_real(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

void check_texts(const InferInput& input) {
  std::string json;
  const Status status = append_tensor_json(input.data, input.dtype, &json);
  if (!status.ok()) return check_error(status);
  const auto bytes = tensor_from_json(json, input.dtype);
  require(bytes.ok(), "JSON that we write reads back");
  // NaN has more than one form, and any byte but 0 is true.
  if (is_real(input.dtype) || input.dtype == DType::kBool) {
    return require(bytes->span().size() == input.data.size(), "and is as long as before");
  }
  require(
      std::equal(bytes->span().begin(), bytes->span().end(), input.data.begin(), input.data.end()),
      "and is what it was");
}

// A byte of the type, a byte of the rank, 8 bytes a size, then the data.
void run(std::string_view bytes) {
  if (bytes.size() < 2) return;
  InferInput input;
  input.name = "x";
  input.dtype = kTypes[static_cast<unsigned char>(bytes[0]) % std::size(kTypes)];
  const std::size_t rank = static_cast<unsigned char>(bytes[1]) % 80;
  bytes.remove_prefix(2);
  for (std::size_t i = 0; i < rank && bytes.size() >= 8; ++i) {
    std::memcpy(&input.shape.emplace_back(), bytes.data(), 8);
    bytes.remove_prefix(8);
  }
  // Aligned, as what comes in is before anybody reads it.
  std::vector<std::uint64_t> aligned(bytes.size() / 8 + 1);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  input.data = std::as_bytes(std::span(aligned)).first(bytes.size());
  if (const Status status = check_input_data(input); !status.ok()) return check_error(status);
  if (input.dtype == DType::kUndefined) return;
  check_texts(input);
  check_result(top_classes(input.data, input.dtype, 3));
}

std::string tensor(int type, const Dims& shape, const std::string& data) {
  std::string bytes = {static_cast<char>(type), static_cast<char>(shape.size())};
  for (const std::int64_t size : shape) {
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  }
  return bytes + data;
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  std::vector<std::string> all = {
      tensor(0, {2}, "\x03\0\0\0abc\0\0\0\0"s), tensor(0, {1, 1}, "\x02\0\0\0\xc3\xa9"s),
      tensor(0, {}, "\xff\xff\xff\xff"s), tensor(12, {1LL << 40, 0, 1LL << 40}, "")};
  for (int type = 1; type < 14; ++type) {
    const std::size_t width = dtype_size(kTypes[type]);
    all.push_back(tensor(type, {2, 1}, "0123456789abcdef"s.substr(0, 2 * width)));
  }
  return all;
}

const Registration registration({"tensors", run, seeds});

}  // namespace
}  // namespace tutti::fuzz
