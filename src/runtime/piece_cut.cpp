#include "runtime/piece_cut.h"

#include <cstring>

namespace tutti {
namespace {

constexpr std::size_t kAlignment = 64;

// Bytes of one unit inside of one row, and how many rows there are.
struct UnitBytes {
  std::int64_t rows = 1;
  std::int64_t row = 0;
  std::int64_t unit = 0;
  std::int64_t per_unit = 0;  // positions of the dimension
};

UnitBytes unit_bytes(const TensorDesc& whole, const PieceCut& cut) {
  const auto at = static_cast<std::size_t>(cut.dim);
  UnitBytes bytes;
  auto inner = static_cast<std::int64_t>(dtype_size(whole.dtype));
  for (std::size_t d = 0; d < whole.dims.size(); ++d) {
    if (d < at) bytes.rows *= whole.dims[d];
    if (d > at) inner *= whole.dims[d];
  }
  bytes.row = whole.dims[at] * inner;
  bytes.per_unit = cut.units == 0 ? 0 : whole.dims[at] / cut.units;
  bytes.unit = bytes.per_unit * inner;
  return bytes;
}

}  // namespace

Result<RankCut> cut_of(const Node& slice, const SymbolMap& symbols) {
  RankCut made;
  TUTTI_ASSIGN_OR_RETURN(made.cut.units, slice.attr_dims("units").at(0).evaluate(symbols));
  TUTTI_ASSIGN_OR_RETURN(made.cut.segments, evaluate(slice.attr_dims("segments"), symbols));
  TUTTI_ASSIGN_OR_RETURN(made.cut.grains, evaluate(slice.attr_dims("grains"), symbols));
  for (const std::int64_t grain : made.cut.grains) {
    if (grain < 1) return invalid_argument("a grain is ", grain, ", expected 1 or more");
  }
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t rank,
                         Dim::symbol("rank." + slice.attr_string("axis")).evaluate(symbols));
  made.cut.dim = static_cast<int>(slice.attr_int("dim"));
  made.cut.replicas = static_cast<int>(slice.attr_int("replicas", 1));
  made.ranks = static_cast<int>(slice.attr_int("ranks"));
  made.rank = static_cast<int>(rank);
  return made;
}

std::vector<PieceRun> piece_runs(const PieceCut& cut, int ranks, int rank) {
  std::vector<PieceRun> runs;
  const auto add = [&](std::int64_t first, std::int64_t count) {
    if (count > 0) runs.push_back({first, count});
  };
  std::int64_t start = 0;
  for (std::size_t i = 0; i < cut.segments.size(); ++i) {
    const std::int64_t grain = cut.grains.empty() ? 1 : cut.grains[i];
    const std::int64_t grains = cut.segments[i] / grain;
    add(start + part_offset(grains, ranks, rank) * grain, part_size(grains, ranks, rank) * grain);
    start += cut.segments[i];
  }
  if (!cut.segments.empty()) return runs;
  const std::int64_t first = part_offset(cut.units * cut.replicas, ranks, rank);
  const std::int64_t count = part_size(cut.units * cut.replicas, ranks, rank);
  if (cut.replicas == 1) {
    add(first, count);
    return runs;
  }
  for (std::int64_t i = first; i < first + count; ++i) add(i / cut.replicas, 1);
  return runs;
}

Result<Tensor> cut_piece(const Tensor& whole, const PieceCut& cut, int ranks, int rank) {
  const UnitBytes bytes = unit_bytes(whole.desc(), cut);
  const std::vector<PieceRun> runs = piece_runs(cut, ranks, rank);
  std::int64_t count = 0;
  for (const PieceRun& run : runs) count += run.count;
  Dims dims = whole.dims();
  dims[static_cast<std::size_t>(cut.dim)] = count * bytes.per_unit;
  if (bytes.rows == 1 && runs.size() == 1) {
    const std::byte* data = whole.data() + runs[0].first * bytes.unit;
    if (reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0) {
      return Tensor::view(whole.dtype(), std::move(dims), data, std::make_shared<Tensor>(whole));
    }
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor piece, Tensor::allocate(whole.dtype(), std::move(dims)));
  for (const PieceRows& rows : piece_rows(whole.desc(), cut, ranks, rank)) {
    for (std::size_t i = 0; i < rows.rows; ++i) {
      std::memcpy(piece.mutable_data() + rows.target_offset + i * rows.target_stride,
                  whole.data() + rows.source_offset + i * rows.source_stride, rows.row_bytes);
    }
  }
  return piece;
}

std::vector<PieceRows> piece_rows(const TensorDesc& whole, const PieceCut& cut, int ranks,
                                  int rank) {
  const UnitBytes bytes = unit_bytes(whole, cut);
  const std::vector<PieceRun> runs = piece_runs(cut, ranks, rank);
  std::int64_t target_row = 0;
  for (const PieceRun& run : runs) target_row += run.count * bytes.unit;
  std::vector<PieceRows> all;
  std::int64_t offset = 0;
  for (const PieceRun& run : runs) {
    PieceRows rows;
    rows.target_offset = static_cast<std::size_t>(offset);
    rows.target_stride = static_cast<std::size_t>(target_row);
    rows.source_offset = static_cast<std::size_t>(run.first * bytes.unit);
    rows.source_stride = static_cast<std::size_t>(bytes.row);
    rows.row_bytes = static_cast<std::size_t>(run.count * bytes.unit);
    rows.rows = static_cast<std::size_t>(bytes.rows);
    offset += run.count * bytes.unit;
    if (rows.row_bytes > 0 && rows.rows > 0) all.push_back(rows);
  }
  return all;
}

}  // namespace tutti
