#include "server/classification.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/half.h"
#include "server/datatype.h"

namespace tutti::server {
namespace {

constexpr std::size_t kMostElements = 1'000'000;

// NaN is no candidate for anything: it goes behind all numbers.
template <class T>
bool is_larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(b) && !std::isnan(a);
  }
  return a > b;
}

template <class Stored, class T = Stored>
std::vector<std::string> pick(std::span<const std::byte> scores, std::uint32_t count,
                              std::span<const std::string> labels) {
  std::vector<Stored> values(scores.size() / sizeof(Stored));
  if (!values.empty()) {  // an output without elements has no address either
    std::memcpy(values.data(), scores.data(), values.size() * sizeof(Stored));
  }
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto kept = static_cast<std::ptrdiff_t>(std::min<std::size_t>(count, order.size()));
  std::partial_sort(order.begin(), order.begin() + kept, order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const T x = static_cast<T>(values[a]);
                      const T y = static_cast<T>(values[b]);
                      if (is_larger(x, y)) return true;
                      return !is_larger(y, x) && a < b;
                    });
  std::vector<std::string> classes;
  for (std::ptrdiff_t i = 0; i < kept; ++i) {
    const std::size_t index = order[static_cast<std::size_t>(i)];
    classes.push_back(std::to_string(static_cast<T>(values[index])) + ":" + std::to_string(index));
    if (index < labels.size() && !labels[index].empty()) classes.back() += ":" + labels[index];
  }
  return classes;
}

}  // namespace

Result<std::vector<std::string>> top_classes(std::span<const std::byte> scores, DType dtype,
                                             std::uint32_t count,
                                             std::span<const std::string> labels) {
  const std::size_t width = dtype_size(dtype);
  if (width > 0 && scores.size() / width > kMostElements) {
    return invalid_argument("classification of ", scores.size() / width,
                            " elements, expected at most ", kMostElements);
  }
  switch (dtype) {
    case DType::kInt8: return pick<std::int8_t>(scores, count, labels);
    case DType::kInt16: return pick<std::int16_t>(scores, count, labels);
    case DType::kInt32: return pick<std::int32_t>(scores, count, labels);
    case DType::kInt64: return pick<std::int64_t>(scores, count, labels);
    case DType::kUInt8: return pick<std::uint8_t>(scores, count, labels);
    case DType::kUInt16: return pick<std::uint16_t>(scores, count, labels);
    case DType::kUInt32: return pick<std::uint32_t>(scores, count, labels);
    case DType::kUInt64: return pick<std::uint64_t>(scores, count, labels);
    case DType::kFloat16: return pick<Half, float>(scores, count, labels);
    case DType::kBFloat16: return pick<BFloat16, float>(scores, count, labels);
    case DType::kFloat32: return pick<float>(scores, count, labels);
    case DType::kFloat64: return pick<double>(scores, count, labels);
    default:
      return invalid_argument("classification of datatype ", protocol_type_name(dtype),
                              ", expected a type of numbers");
  }
}

}  // namespace tutti::server
