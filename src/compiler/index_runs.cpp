#include "compiler/index_runs.h"

#include <algorithm>

#include "base/dispatch.h"
#include "compiler/match.h"

namespace tutti {
namespace {

bool is_integer_constant(const Value& value) {
  return value.is_constant() && is_integer(value.dtype());
}

// Elements at steps of `stride` along one axis, when all others of the tensor repeat them.
std::optional<Rows> repeated_along(const Tensor& tensor, std::size_t axis) {
  const Dims strides = contiguous_strides(tensor.dims());
  const std::int64_t count = tensor.dims()[axis];
  const std::int64_t stride = strides[axis];
  std::optional<Rows> rows;
  const Status status = dispatch_dtype(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      const T* data = tensor.data_as<T>();
      const std::int64_t lines = tensor.element_count() / stride;
      for (std::int64_t line = 0; line < lines; ++line) {
        const T first = data[line % count * stride];
        const T* begin = data + line * stride;
        if (std::any_of(begin, begin + stride, [&](T x) { return x != first; })) return Status();
      }
      rows.emplace();
      for (std::int64_t i = 0; i < count; ++i) {
        rows->push_back(static_cast<std::int64_t>(data[i * stride]));
      }
    }
    return Status();
  });
  return status.ok() ? rows : std::nullopt;
}

}  // namespace

std::vector<IndexRun> runs_of(const Rows& rows) {
  std::vector<IndexRun> runs;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    runs.push_back(
        {rows[begin], static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin)});
    begin = end;
  }
  return runs;
}

std::optional<IndexRun> counted_run(const Value& indices) {
  const Value* value = &indices;
  while (producer_of(value, "Reshape") != nullptr ||
         (producer_of(value, "Cast") != nullptr && is_integer(value->dtype()))) {
    value = value->producer()->input(0);
  }
  const Node* iota = producer_of(value, "Iota");
  if (iota == nullptr || !is_integer(value->dtype())) return std::nullopt;
  const auto& start = iota->input(0)->symbolic();
  if (!start || !is_never_negative((*start)[0]) || scalar_of(iota->input(1)) != 1.0) {
    return std::nullopt;
  }
  return IndexRun{(*start)[0], 0, value->shape()[0]};
}

std::optional<Rows> normalized_rows(Rows rows, const Dim& size) {
  for (std::int64_t& row : rows) {
    if (row < 0 && !size.is_constant()) return std::nullopt;
    if (row < 0) row += size.constant();
    if (row < 0 || (size.is_constant() && row >= size.constant())) return std::nullopt;
  }
  return rows;
}

std::optional<Rows> constant_rows(const Value& indices) {
  if (!is_integer_constant(indices)) return std::nullopt;
  return indices.constant().to_ints();
}

const Value* row_before_expand(const Value& indices, std::size_t axis) {
  const Node* expand = producer_of(&indices, "Expand");
  if (expand == nullptr) return nullptr;
  const Value* x = expand->input(0);
  const std::size_t added = indices.rank() - x->rank();
  if (axis < added || x->shape()[axis - added] != indices.shape()[axis]) return nullptr;
  for (std::size_t d = 0; d < x->rank(); ++d) {
    if (d + added != axis && !x->shape()[d].is(1)) return nullptr;
  }
  return x;
}

std::optional<Rows> rows_along(const Value& indices, std::size_t axis) {
  if (!is_integer_constant(indices) || indices.constant().element_count() == 0) return std::nullopt;
  return repeated_along(indices.constant(), axis);
}

std::optional<std::vector<Rows>> rows_by_axis(const Value& coordinates) {
  if (!is_integer_constant(coordinates) || coordinates.rank() == 0) return std::nullopt;
  const auto depth = static_cast<std::size_t>(coordinates.constant().dims().back());
  const Rows numbers = coordinates.constant().to_ints();
  if (numbers.empty()) return std::nullopt;  // then depth is not 0 either
  const std::size_t count = numbers.size() / depth;
  const auto at = [&](std::size_t i, std::size_t d) { return numbers[i * depth + d]; };
  std::vector<Rows> rows(depth);
  std::size_t inner = 1;
  // From the innermost axis outwards: it goes on for as long as no axis outside of it moves.
  for (std::size_t d = depth; d-- > 0;) {
    for (std::size_t i = 0; i < count; i += inner) {
      bool moved = false;
      for (std::size_t outer = 0; outer < d; ++outer) moved |= at(i, outer) != at(0, outer);
      if (moved) break;
      rows[d].push_back(at(i, d));
    }
    inner *= rows[d].size();
  }
  if (inner != count) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i;
    for (std::size_t d = depth; d-- > 0;) {
      if (at(i, d) != rows[d][rest % rows[d].size()]) return std::nullopt;
      rest /= rows[d].size();
    }
  }
  return rows;
}

std::optional<AxisMask> axis_mask(const Value& mask) {
  if (!mask.is_constant() || mask.dtype() != DType::kBool) return std::nullopt;
  const Tensor& tensor = mask.constant();
  if (tensor.element_count() == 0) return std::nullopt;
  const bool* data = tensor.data_as<bool>();
  const auto end = data + tensor.element_count();
  if (std::all_of(data, end, [&](bool x) { return x == data[0]; })) return AxisMask{0, {data[0]}};
  for (std::size_t axis = 0; axis < tensor.rank(); ++axis) {
    const auto rows = repeated_along(tensor, axis);
    if (rows) return AxisMask{axis, std::vector<bool>(rows->begin(), rows->end())};
  }
  return std::nullopt;
}

}  // namespace tutti
