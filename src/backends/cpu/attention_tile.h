// The inner loops of attention, compiled once for each instruction set: attention_avx512.cpp,
// attention_avx2.cpp and attention_baseline.cpp include this file, once each, after they defined
//   TUTTI_LEVEL         name of the level: a namespace
//   TUTTI_LEVEL_WIDTH   floats in a vector
//   TUTTI_LEVEL_TARGET  the target attribute; every function with vectors needs it, because GCC
//   takes
//                       vectors apart in functions whose target lacks them, even inlined ones
//
// The algorithm is FlashAttention's (Dao et al. 2022, arXiv:2205.14135; the order of loops is that
// of the second paper, arXiv:2307.08691): a tile of queries stays, blocks of keys pass by, and a
// running maximum and sum of each row keep the softmax right, so the scores never exist as a whole.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "backends/cpu/attention_levels.h"
#include "backends/cpu/half_simd.h"
#include "backends/cpu/vector_math.h"

namespace tutti::cpu::attention::TUTTI_LEVEL {

#define TUTTI_TILE TUTTI_LEVEL_TARGET __attribute__((always_inline)) static inline

constexpr int kWidth = TUTTI_LEVEL_WIDTH;
// Query rows and key (or value) columns of one register tile: rows * 2 + 3 vectors.
constexpr int kRows = kWidth == 16 ? 12 : 6;
constexpr int kColumns = 2 * kWidth;
// Rows of a query tile: all query heads of a group times some tokens.
constexpr std::int64_t kTileRows = 192;
constexpr std::int64_t kKeyBlock = 128;  // keys of one step; also the row stride of a score tile
constexpr float kLog2E = 1.44269504f;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

typedef float Vec __attribute__((vector_size(kWidth * 4)));
typedef float LooseVec __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
typedef std::int32_t IntVec __attribute__((vector_size(kWidth * 4)));

TUTTI_TILE Vec load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
TUTTI_TILE void store(float* p, Vec x) { *reinterpret_cast<LooseVec*>(p) = x; }
TUTTI_TILE Vec broadcast(float x) { return x - Vec{}; }

// Each lane with the lane whose number differs in `bit`.
TUTTI_TILE Vec exchange_lanes(Vec x, int bit) {
  IntVec from;
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) from[i] = i ^ bit;
#ifdef __clang__  // has no name for it
  Vec out{};
  for (int i = 0; i < kWidth; ++i) out[i] = x[from[i]];
  return out;
#else
  return __builtin_shuffle(x, from);
#endif
}
TUTTI_TILE float horizontal_max(Vec x) {
#pragma GCC unroll 4
  for (int bit = kWidth / 2; bit > 0; bit /= 2) {
    const Vec other = exchange_lanes(x, bit);
    x = x > other ? x : other;
  }
  return x[0];
}
TUTTI_TILE float horizontal_sum(Vec x) {
  float out = 0;
  for (int i = 0; i < kWidth; ++i) out += x[i];
  return out;
}

// 2^x for x <= 0; NaN gives NaN. Relative error below 2e-7: our own minimax fit. Below 2^-64 it is
// 0: a weight that small is lost next to the row's largest, 1, and would make slow subnormal
// products.
TUTTI_TILE Vec exp2_negative(Vec x) {
  // 1.5 * 2^23 + 127: the sum's low bits are the biased exponent of 2^round(x).
  const Vec magic = broadcast(12583039.0f);
  const Vec sum = x + magic;
  const Vec r = x - (sum - magic);
  Vec p = r * 0.001326472731307149f + 0.009671512991189957f;
  p = p * r + 0.05550733581185341f;
  p = p * r + 0.24022242426872253f;
  p = p * r + 0.6931470036506653f;
  p = p * r + 1.0f;
  const IntVec scale = reinterpret_cast<IntVec>(sum) << 23;
  const Vec result = p * reinterpret_cast<Vec>(scale);
  const IntVec is_tiny = x < broadcast(-64.0f);
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(result) & ~is_tiny);
}

// C[R x NV * kWidth] (+)= A B over k. A element (i, p) is a[i * AI + p * AP]: constants, so that
// they become address offsets. B rows are b_stride apart, C rows CS.
template <int R, int NV, int AI, int AP, int CS, bool kAccumulate>
TUTTI_TILE void multiply_tile(std::int64_t k, const float* a, const float* b, std::int64_t b_stride,
                              float* c, std::int64_t c_stride) {
  const std::int64_t cs = CS != 0 ? CS : c_stride;
  Vec sums[R][NV];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) sums[i][j] = kAccumulate ? load(c + i * cs + j * kWidth) : Vec{};
  }
  for (std::int64_t p = 0; p < k; ++p) {
    Vec row[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) row[j] = load(b + j * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const Vec x = broadcast(a[i * AI]);
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sums[i][j] += x * row[j];
    }
    a += AP;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) store(c + i * cs + j * kWidth, sums[i][j]);
  }
}

// How many keys, from the first, row `query` of batch element `b` may see.
TUTTI_TILE std::int64_t visible_keys(const AttentionShape& s, const AttentionData& data,
                                     std::int64_t b, std::int64_t query) {
  std::int64_t keys = s.keys;
  std::int64_t offset = s.causal_offset;
  if (data.key_lengths != nullptr) {
    keys = std::clamp<std::int64_t>(data.key_lengths[b], 0, s.keys);
    offset = data.key_lengths[b] - s.queries;
  }
  if (s.is_causal) keys = std::clamp<std::int64_t>(query + offset + 1, 0, keys);
  return keys;
}

// Softcap and mask on `count` scores of one row; leaves them in units of log2.
template <class T>
TUTTI_TILE void adjust_row(const AttentionShape& s, const AttentionData& data, std::int64_t mask_at,
                           std::int64_t count, float* row) {
  if (s.softcap > 0) {
    const float inverse = 1.0f / s.softcap;
    const float factor = s.softcap * kLog2E;
    for (std::int64_t j = 0; j < count; ++j) row[j] = tanh_approx(row[j] * inverse) * factor;
  }
  if (s.mask_dtype == DType::kUndefined) return;
  const std::int64_t step = s.mask_strides[3];
  if (s.mask_dtype == DType::kBool) {
    const auto* mask = static_cast<const std::uint8_t*>(data.mask) + mask_at;
    if (step == 1) {
      for (std::int64_t j = 0; j < count; ++j) row[j] = mask[j] != 0 ? row[j] : kLowest;
    } else if (mask[0] == 0) {
      for (std::int64_t j = 0; j < count; ++j) row[j] = kLowest;
    }
  } else {
    const auto* mask = static_cast<const T*>(data.mask) + mask_at;
    if (step == 1) {
      for (std::int64_t j = 0; j < count; ++j) row[j] += to_float(mask[j]) * kLog2E;
    } else {
      const float shift = to_float(mask[0]) * kLog2E;
      for (std::int64_t j = 0; j < count; ++j) row[j] += shift;
    }
  }
}

// Turns `count` scores into weights relative to the new maximum of the row, with zeros up to a
// whole vector, and updates the row's maximum, sum (a vector, to be added up at the end) and
// output.
TUTTI_TILE void softmax_row(std::int64_t count, std::int64_t e_padded, float* row, float* maximum,
                            float* sum, float* out) {
  const std::int64_t padded = (count + kWidth - 1) / kWidth * kWidth;
  for (std::int64_t j = count; j < padded; ++j) row[j] = kLowest;
  Vec most = broadcast(kLowest);
  for (std::int64_t j = 0; j < padded; j += kWidth) {
    const Vec x = load(row + j);
    most = x > most ? x : most;
  }
  const float old_maximum = *maximum;
  const float block_maximum = horizontal_max(most);
  const float new_maximum = block_maximum > old_maximum ? block_maximum : old_maximum;
  if (new_maximum == kLowest) {  // nothing to see yet: no weight anywhere
    for (std::int64_t j = 0; j < padded; j += kWidth) store(row + j, Vec{});
    return;
  }
  if (new_maximum > old_maximum) {
    *maximum = new_maximum;
    if (old_maximum != kLowest) {
      const Vec shrink = exp2_negative(broadcast(old_maximum - new_maximum));
      store(sum, load(sum) * shrink);
      for (std::int64_t j = 0; j < e_padded; j += kWidth) store(out + j, load(out + j) * shrink);
    }
  }
  const Vec shift = broadcast(new_maximum);
  Vec total = load(sum);
  for (std::int64_t j = 0; j < padded; j += kWidth) {
    const Vec x = exp2_negative(load(row + j) - shift);
    total += x;
    store(row + j, x);
  }
  store(sum, total);
}

// Sizes that follow from a shape at width kWidth.
struct Plan {
  explicit Plan(const AttentionShape& s)
      : panels((s.keys + kColumns - 1) / kColumns),
        e_padded((s.e + kWidth - 1) / kWidth * kWidth),
        tokens(
            std::clamp<std::int64_t>(kTileRows / s.group, 1, std::max<std::int64_t>(s.queries, 1))),
        tiles((s.queries + tokens - 1) / tokens),
        rows((tokens * s.group + kRows - 1) / kRows * kRows) {}

  std::int64_t panels;    // of packed keys, for one head
  std::int64_t e_padded;  // columns of the output tile
  std::int64_t tokens;    // of one query tile
  std::int64_t tiles;     // for one head
  std::int64_t rows;      // of one query tile, in whole register tiles

  std::int64_t key_floats(const AttentionShape& s) const { return panels * kColumns * s.d; }
  // Output, sum and maximum of the rows of one tile.
  std::int64_t state_floats() const { return rows * (e_padded + kWidth + 1); }
  std::int64_t scratch_floats(const AttentionShape& s) const {
    return rows * (s.d + kKeyBlock) + state_floats();
  }
};

// Packs panel `item` of all heads' keys: [b][head][panel][d][columns] of f32, zeros past the end.
template <class T>
TUTTI_TILE void pack_keys(const AttentionShape& s, const T* k, std::int64_t item, float* packed) {
  const Plan plan(s);
  const std::int64_t panel = item % plan.panels;
  const std::int64_t head = item / plan.panels % s.kv_heads;
  const std::int64_t b = item / plan.panels / s.kv_heads;
  const T* source = k + b * s.k.batch + head * s.k.head + panel * kColumns * s.k.token;
  float* target = packed + item * kColumns * s.d;
  const std::int64_t count = std::min<std::int64_t>(kColumns, s.keys - panel * kColumns);
  for (std::int64_t j = 0; j < count; ++j) {
    for (std::int64_t p = 0; p < s.d; ++p)
      target[p * kColumns + j] = to_float(source[j * s.k.token + p]);
  }
  for (std::int64_t p = 0; p < s.d; ++p) {
    for (std::int64_t j = count; j < kColumns; ++j) target[p * kColumns + j] = 0.0f;
  }
}

// Packs token `item` of the values, counted over batch, heads and keys: of each head panels of
// columns, so that what one register tile reads lies together: [b][head][panel][key][columns]. The
// last panel has one vector of columns where that is enough.
template <class T>
TUTTI_TILE void pack_values(const AttentionShape& s, const T* v, std::int64_t item, float* packed) {
  const std::int64_t padded = Plan(s).e_padded;
  const std::int64_t key = item % s.keys;
  const std::int64_t head = item / s.keys % s.kv_heads;
  const std::int64_t b = item / s.keys / s.kv_heads;
  const T* source = v + b * s.v.batch + head * s.v.head + key * s.v.token;
  packed += (b * s.kv_heads + head) * s.keys * padded;
  for (std::int64_t column = 0; column < padded; column += kColumns) {
    const std::int64_t width = std::min<std::int64_t>(kColumns, padded - column);
    const std::int64_t count = std::min(width, s.e - column);
    float* target = packed + column * s.keys + key * width;
    for (std::int64_t j = 0; j < count; ++j) target[j] = to_float(source[column + j]);
    for (std::int64_t j = count; j < width; ++j) target[j] = 0.0f;
  }
}

// One query tile: item is (b, key/value head, tile). `keys` and `values` are packed; `scratch` has
// Plan::scratch_floats().
template <class T>
TUTTI_TILE void attend_tile(const AttentionShape& s, const AttentionData& data, const float* keys,
                            const float* values, std::int64_t item, float* scratch) {
  const Plan plan(s);
  const std::int64_t tile = item % plan.tiles;
  const std::int64_t head = item / plan.tiles % s.kv_heads;
  const std::int64_t b = item / plan.tiles / s.kv_heads;
  const std::int64_t first = tile * plan.tokens;
  const std::int64_t tokens = std::min(plan.tokens, s.queries - first);
  const std::int64_t rows = tokens * s.group;
  const std::int64_t row_tiles = (rows + kRows - 1) / kRows;
  keys += (b * s.kv_heads + head) * plan.key_floats(s);
  values += (b * s.kv_heads + head) * s.keys * plan.e_padded;

  float* q = scratch;  // [row tile][d][kRows]
  float* scores = q + plan.rows * s.d;
  float* out = data.state != nullptr ? data.state + item * plan.state_floats()
                                     : scores + plan.rows * kKeyBlock;
  float* sum = out + plan.rows * plan.e_padded;  // [row][kWidth]
  float* maximum = sum + plan.rows * kWidth;
  const float scale = s.softcap > 0 ? s.scale : s.scale * kLog2E;
  const T* queries = static_cast<const T*>(data.q) + b * s.q.batch;
  for (std::int64_t row = 0; row < row_tiles * kRows; ++row) {
    float* target = q + row / kRows * kRows * s.d + row % kRows;
    if (row >= rows) {
      for (std::int64_t p = 0; p < s.d; ++p) target[p * kRows] = 0.0f;
      continue;
    }
    const T* source =
        queries + (head * s.group + row / tokens) * s.q.head + (first + row % tokens) * s.q.token;
    for (std::int64_t p = 0; p < s.d; ++p) target[p * kRows] = to_float(source[p]) * scale;
  }
  if (!data.resumes) {
    for (std::int64_t i = 0; i < row_tiles * kRows * plan.e_padded; ++i) out[i] = 0.0f;
    for (std::int64_t i = 0; i < row_tiles * kRows * kWidth; ++i) sum[i] = 0.0f;
    for (std::int64_t i = 0; i < row_tiles * kRows; ++i) maximum[i] = kLowest;
  }

  // The last query sees most.
  const std::int64_t end = visible_keys(s, data, b, first + tokens - 1);
  const bool is_adjusted = s.softcap > 0 || s.mask_dtype != DType::kUndefined;
  for (std::int64_t key = 0; key < end; key += kKeyBlock) {
    const std::int64_t count = std::min(kKeyBlock, end - key);
    for (std::int64_t column = 0; column < count; column += kColumns) {
      const float* panel = keys + (key + column) * s.d;
      for (std::int64_t i = 0; i < row_tiles; ++i) {
        multiply_tile<kRows, 2, 1, kRows, kKeyBlock, false>(
            s.d, q + i * kRows * s.d, panel, kColumns, scores + i * kRows * kKeyBlock + column, 0);
      }
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t query = first + row % tokens;
      const std::int64_t visible =
          s.is_causal ? std::clamp<std::int64_t>(visible_keys(s, data, b, query) - key, 0, count)
                      : count;
      float* line = scores + row * kKeyBlock;
      if (is_adjusted) {
        const std::int64_t mask_at = b * s.mask_strides[0] +
                                     (head * s.group + row / tokens) * s.mask_strides[1] +
                                     query * s.mask_strides[2] + key * s.mask_strides[3];
        adjust_row<T>(s, data, mask_at, visible, line);
      }
      softmax_row(visible, plan.e_padded, line, maximum + row, sum + row * kWidth,
                  out + row * plan.e_padded);
      for (std::int64_t j = (visible + kWidth - 1) / kWidth * kWidth; j < count; ++j)
        line[j] = 0.0f;
    }
    for (std::int64_t column = 0; column < plan.e_padded; column += kColumns) {
      const bool is_whole = column + kColumns <= plan.e_padded;
      const float* panel = values + column * s.keys + key * (is_whole ? kColumns : kWidth);
      for (std::int64_t i = 0; i < row_tiles; ++i) {
        const float* weights = scores + i * kRows * kKeyBlock;
        float* target = out + i * kRows * plan.e_padded + column;
        if (is_whole) {
          multiply_tile<kRows, 2, kKeyBlock, 1, 0, true>(count, weights, panel, kColumns, target,
                                                         plan.e_padded);
        } else {
          multiply_tile<kRows, 1, kKeyBlock, 1, 0, true>(count, weights, panel, kWidth, target,
                                                         plan.e_padded);
        }
      }
    }
  }

  if (!data.finishes) return;
  T* result = static_cast<T*>(data.out) + b * s.out.batch;
  for (std::int64_t row = 0; row < rows; ++row) {
    T* target = result + (head * s.group + row / tokens) * s.out.head +
                (first + row % tokens) * s.out.token;
    const float* line = out + row * plan.e_padded;
    // A row that saw no key is zero, as in ONNX.
    const float total = horizontal_sum(load(sum + row * kWidth));
    const float factor = maximum[row] == kLowest ? 0.0f : 1.0f / total;
    for (std::int64_t j = 0; j < s.e; ++j) target[j] = from_float<T>(line[j] * factor);
  }
}

template <class T>
struct Level {
  TUTTI_LEVEL_TARGET static void keys(const AttentionShape& s, const void* k, std::int64_t begin,
                                      std::int64_t end, float* packed) {
    for (std::int64_t item = begin; item < end; ++item) {
      pack_keys<T>(s, static_cast<const T*>(k), item, packed);
    }
  }
  TUTTI_LEVEL_TARGET static void values(const AttentionShape& s, const void* v, std::int64_t begin,
                                        std::int64_t end, float* packed) {
    for (std::int64_t item = begin; item < end; ++item) {
      pack_values<T>(s, static_cast<const T*>(v), item, packed);
    }
  }
  TUTTI_LEVEL_TARGET static void attend(const AttentionShape& s, const AttentionData& data,
                                        const float* keys, const float* values, std::int64_t begin,
                                        std::int64_t end, float* scratch) {
    for (std::int64_t item = begin; item < end; ++item) {
      attend_tile<T>(s, data, keys, values, item, scratch);
    }
  }

  static constexpr Functions kFunctions = {
      .packed_key_floats =
          [](const AttentionShape& s) { return s.batch * s.kv_heads * Plan(s).key_floats(s); },
      .packed_value_floats =
          [](const AttentionShape& s) { return s.batch * s.kv_heads * s.keys * Plan(s).e_padded; },
      .scratch_floats = [](const AttentionShape& s) { return Plan(s).scratch_floats(s); },
      .state_floats = [](const AttentionShape& s) { return Plan(s).state_floats(); },
      .panel_count = [](const AttentionShape& s) { return s.batch * s.kv_heads * Plan(s).panels; },
      .tile_count = [](const AttentionShape& s) { return s.batch * s.kv_heads * Plan(s).tiles; },
      .pack_keys = keys,
      .pack_values = values,
      .attend = attend,
  };
};

const Functions* functions(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return &Level<float>::kFunctions;
    case DType::kFloat16: return &Level<Half>::kFunctions;
    case DType::kBFloat16: return &Level<BFloat16>::kFunctions;
    default: return nullptr;
  }
}

#undef TUTTI_TILE

}  // namespace tutti::cpu::attention::TUTTI_LEVEL
