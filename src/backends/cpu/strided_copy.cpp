#include "backends/cpu/strided_copy.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/simd.h"
#include "backends/cpu/strided.h"
#include "runtime/strides.h"

namespace tutti::cpu {
namespace {

constexpr std::int64_t kPieceBytes = 64 << 10;  // worth waking a thread for
constexpr std::int64_t kTile = 32;              // two tiles of 8-byte elements fit 16 KB
constexpr std::size_t kMaxRank = 32;

// dims[d] and strides, ordered so that the target is walked front to back.
void sort_by_target(Dims* dims, Dims* source, Dims* target) {
  std::vector<std::size_t> order(dims->size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs((*target)[a]) > std::abs((*target)[b]);
  });
  const Dims old_dims = *dims;
  const Dims old_source = *source;
  const Dims old_target = *target;
  for (std::size_t d = 0; d < order.size(); ++d) {
    (*dims)[d] = old_dims[order[d]];
    (*source)[d] = old_source[order[d]];
    (*target)[d] = old_target[order[d]];
  }
}

template <class T>
void fill_run(const std::byte* source, std::byte* target, std::int64_t count) {
  std::fill_n(reinterpret_cast<T*>(target), count, *reinterpret_cast<const T*>(source));
}

template <class T>
void copy_elements(const std::byte* source, std::int64_t source_stride, std::byte* target,
                   std::int64_t target_stride, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    *reinterpret_cast<T*>(target + i * target_stride) =
        *reinterpret_cast<const T*>(source + i * source_stride);
  }
}

// 8x8 elements of 4 bytes: rows of `source` become columns of `target`. Strides in elements.
__attribute__((target("avx2"))) void transpose_8x8(const std::uint32_t* source,
                                                   std::int64_t source_stride,
                                                   std::uint32_t* target,
                                                   std::int64_t target_stride) {
  __m256i rows[8];
  __m256i pairs[8];
  for (int i = 0; i < 8; ++i) {
    rows[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + i * source_stride));
  }
  for (int i = 0; i < 8; i += 2) {  // 2x2 blocks, within each half
    pairs[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {  // 4x4 blocks
    rows[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    rows[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    rows[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {  // the halves change places
    const __m256i low = _mm256_permute2x128_si256(rows[i], rows[i + 4], 0x20);
    const __m256i high = _mm256_permute2x128_si256(rows[i], rows[i + 4], 0x31);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + i * target_stride), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + (i + 4) * target_stride), high);
  }
}

// rows x columns, at most kTile rows: a row is dense in the target, a column in the source. A tile
// passes through a dense buffer, because source strides of whole pages would fight for cache sets.
template <class T>
void transpose_tile(const std::byte* source, std::int64_t column_source, std::byte* target,
                    std::int64_t row_target, std::int64_t rows, std::int64_t columns) {
  T tile[kTile * kTile];
  [[maybe_unused]] const bool has_blocks = simd_level() != SimdLevel::kBaseline;
  for (std::int64_t first = 0; first < columns; first += kTile) {
    const std::int64_t count = std::min(columns - first, kTile);
    for (std::int64_t c = 0; c < count; ++c) {
      std::memcpy(tile + c * kTile, source + (first + c) * column_source,
                  static_cast<std::size_t>(rows) * sizeof(T));
    }
    if constexpr (sizeof(T) == 4) {
      if (has_blocks && rows == kTile && count == kTile) {
        for (std::int64_t r = 0; r < kTile; r += 8) {
          for (std::int64_t c = 0; c < kTile; c += 8) {
            transpose_8x8(tile + c * kTile + r, kTile,
                          reinterpret_cast<T*>(target + r * row_target) + first + c,
                          row_target / 4);
          }
        }
        continue;
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      T* to = reinterpret_cast<T*>(target + r * row_target) + first;
      for (std::int64_t c = 0; c < count; ++c) to[c] = tile[c * kTile + r];
    }
  }
}

template <class F>
void with_size(std::size_t size, const F& f) {
  switch (size) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

}  // namespace

StridedCopy::StridedCopy(const StridedBox& box) : size_(box.element_size) {
  const auto bytes = static_cast<std::int64_t>(size_);
  source_offset_ = box.source_offset * bytes;
  target_offset_ = box.target_offset * bytes;
  if (std::find(box.dims.begin(), box.dims.end(), 0) != box.dims.end()) return;
  Dims sorted = box.dims;
  std::vector<Dims> strides{box.source_strides, box.target_strides};
  sort_by_target(&sorted, &strides[0], &strides[1]);
  dims_ = collapse(sorted, &strides);
  source_strides_ = std::move(strides[0]);
  target_strides_ = std::move(strides[1]);
  for (std::int64_t& stride : source_strides_) stride *= bytes;
  for (std::int64_t& stride : target_strides_) stride *= bytes;
  widen_elements();
  choose_mode();
}

// A dense run of 2, 4 or 8 bytes is one larger element, where everything is aligned to it.
void StridedCopy::widen_elements() {
  const auto bytes = static_cast<std::int64_t>(size_);
  const std::int64_t run = dims_.back() * bytes;
  const bool is_dense = source_strides_.back() == bytes && target_strides_.back() == bytes;
  if (!is_dense || dims_.size() < 2 || (run != 2 && run != 4 && run != 8)) return;
  bool is_aligned = source_offset_ % run == 0 && target_offset_ % run == 0;
  for (std::size_t d = 0; d + 1 < dims_.size(); ++d) {
    is_aligned = is_aligned && source_strides_[d] % run == 0 && target_strides_[d] % run == 0;
  }
  if (!is_aligned) return;
  size_ = static_cast<std::size_t>(run);
  dims_.pop_back();
  source_strides_.pop_back();
  target_strides_.pop_back();
}

void StridedCopy::choose_mode() {
  const auto bytes = static_cast<std::int64_t>(size_);
  inner_ = dims_.back();
  inner_source_ = source_strides_.back();
  inner_target_ = target_strides_.back();
  dims_.pop_back();
  source_strides_.pop_back();
  target_strides_.pop_back();
  if (inner_ == 1) inner_source_ = inner_target_ = bytes;
  piece_ = std::max<std::int64_t>(kPieceBytes / bytes, 1);
  std::int64_t split = inner_;
  mode_ = Mode::kElements;
  if (inner_target_ == bytes && inner_source_ == bytes) {
    mode_ = Mode::kRuns;
  } else if (inner_target_ == bytes && inner_source_ == 0) {
    mode_ = Mode::kFill;
  } else if (inner_target_ == bytes) {
    const auto dense = std::find(source_strides_.begin(), source_strides_.end(), bytes);
    if (dense != source_strides_.end()) {
      const auto d = dense - source_strides_.begin();
      mode_ = Mode::kTiles;
      row_ = dims_[static_cast<std::size_t>(d)];
      row_target_ = target_strides_[static_cast<std::size_t>(d)];
      dims_.erase(dims_.begin() + d);
      source_strides_.erase(source_strides_.begin() + d);
      target_strides_.erase(target_strides_.begin() + d);
      piece_ = kTile;
      split = row_;
    }
  }
  pieces_ = (split + piece_ - 1) / piece_;
  units_ = pieces_ * tutti::element_count(dims_);
  const std::int64_t unit_bytes =
      std::min(piece_, split) * bytes * (mode_ == Mode::kTiles ? inner_ : 1);
  grain_ = std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(unit_bytes, 1));
}

void StridedCopy::run(const void* source, void* target, ThreadPool* pool) const {
  if (mode_ == Mode::kNothing) return;
  struct Ends {
    const std::byte* source;
    std::byte* target;
  };
  const Ends ends{static_cast<const std::byte*>(source) + source_offset_,
                  static_cast<std::byte*>(target) + target_offset_};
  const auto body = [this, &ends](std::int64_t begin, std::int64_t end, int) {
    run_units(ends.source, ends.target, begin, end);
  };
  pool->parallel_for(units_, grain_, body);
}

void StridedCopy::run_units(const std::byte* source, std::byte* target, std::int64_t begin,
                            std::int64_t end) const {
  std::int64_t at[kMaxRank];
  unravel(begin / pieces_, dims_, at);
  std::int64_t piece = begin % pieces_;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    source += at[d] * source_strides_[d];
    target += at[d] * target_strides_[d];
  }
  for (std::int64_t unit = begin; unit < end; ++unit) {
    copy_unit(source, target, piece);
    if (++piece < pieces_) continue;
    piece = 0;
    for (std::size_t d = dims_.size(); d-- > 0;) {
      source += source_strides_[d];
      target += target_strides_[d];
      if (++at[d] < dims_[d]) break;
      source -= dims_[d] * source_strides_[d];
      target -= dims_[d] * target_strides_[d];
      at[d] = 0;
    }
  }
}

void StridedCopy::copy_unit(const std::byte* source, std::byte* target, std::int64_t piece) const {
  const std::int64_t first = piece * piece_;
  if (mode_ == Mode::kTiles) {
    const std::int64_t rows = std::min(piece_, row_ - first);
    with_size(size_, [&](auto element) {
      using T = decltype(element);
      transpose_tile<T>(source + first * static_cast<std::int64_t>(sizeof(T)), inner_source_,
                        target + first * row_target_, row_target_, rows, inner_);
    });
    return;
  }
  const std::int64_t count = std::min(piece_, inner_ - first);
  source += first * inner_source_;
  target += first * inner_target_;
  switch (mode_) {
    case Mode::kRuns: std::memcpy(target, source, static_cast<std::size_t>(count) * size_); break;
    case Mode::kFill:
      with_size(size_, [&](auto element) { fill_run<decltype(element)>(source, target, count); });
      break;
    default:
      with_size(size_, [&](auto element) {
        copy_elements<decltype(element)>(source, inner_source_, target, inner_target_, count);
      });
  }
}

}  // namespace tutti::cpu
