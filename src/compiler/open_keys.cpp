#include "compiler/open_keys.h"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

constexpr std::size_t kMask = 3;
constexpr std::size_t kKeyLengths = 4;

bool is_open(bool value) { return value; }
bool is_open(float value) { return !std::isinf(value) || value > 0; }
bool adds_nothing(bool value) { return value; }
bool adds_nothing(float value) { return value == 0; }

// `rows` rows of queries a matrix, of which [first, end) are asked.
template <class T>
OpenKeys scan(const Tensor& mask, std::int64_t rows, std::int64_t first, std::int64_t end) {
  const std::int64_t keys = mask.dims().back();
  const std::int64_t matrices = mask.element_count() / std::max<std::int64_t>(1, rows * keys);
  OpenKeys open{keys, 0, true};
  const auto visit = [&](auto&& see) {
    for (std::int64_t m = 0; m < matrices; ++m) {
      const T* row = mask.data_as<T>() + (m * rows + first) * keys;
      for (std::int64_t q = first; q < end; ++q, row += keys) see(row);
    }
  };
  visit([&](const T* row) {
    std::int64_t k = 0;
    while (k < open.first && !is_open(row[k])) ++k;
    open.first = std::min(open.first, k);
    k = keys;
    while (k > open.end && !is_open(row[k - 1])) --k;
    open.end = std::max(open.end, k);
  });
  visit([&](const T* row) {
    for (std::int64_t k = open.first; k < open.end; ++k) open.are_all_open &= adds_nothing(row[k]);
  });
  return open;
}

}  // namespace

std::optional<OpenKeys> open_keys(const Node& attention, std::int64_t first_query,
                                  std::int64_t end_query) {
  const Value* mask = attention.input(kMask);
  if (mask == nullptr || !mask->is_constant() || mask->rank() < 1) return std::nullopt;
  if (attention.attr_int("is_causal") != 0 || attention.input(kKeyLengths) != nullptr) {
    return std::nullopt;
  }
  const Tensor& tensor = mask->constant();
  const std::int64_t keys = tensor.dims().back();
  const std::int64_t rows = tensor.rank() < 2 ? 1 : tensor.dims()[tensor.rank() - 2];
  if (keys < 2) return std::nullopt;  // broadcast
  if (rows == 1) {
    first_query = 0;
    end_query = 1;
  }
  if (first_query < 0 || end_query > rows) return std::nullopt;
  std::optional<OpenKeys> open;
  if (tensor.dtype() == DType::kBool) open = scan<bool>(tensor, rows, first_query, end_query);
  if (tensor.dtype() == DType::kFloat32) open = scan<float>(tensor, rows, first_query, end_query);
  return open && open->first < open->end ? open : std::nullopt;
}

}  // namespace tutti
