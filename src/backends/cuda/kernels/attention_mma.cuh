// Attention of 16-bit floats on matrix units (mma.sync m16n8k16, compute capability 8.0), after Dao
// 2023, "FlashAttention-2": 8 warps of 16 queries each, tiles of BK keys, two of them in flight.
// Scores and probabilities stay in registers. D and E are multiples of 16. Parameters:
// attention.cuh. After attention_places.cuh and mma.cuh.
constexpr int KEY_ROW = D + 8;  // elements; the padding keeps rows on different banks
constexpr int VALUE_ROW = E + 8;
constexpr int STAGE = BK * (KEY_ROW + VALUE_ROW);
constexpr float LOG2E = 1.4426950408889634f;

// Keys [first, first + BK) and their values.
__device__ __forceinline__ void load_tile(const T* k, i64 k_stride, const T* v, i64 v_stride,
                                          i64 first, i64 end, T* stage) {
  constexpr int KEY_PIECES = D / 8;
  constexpr int VALUE_PIECES = E / 8;
  for (int i = threadIdx.x; i < BK * KEY_PIECES; i += 256) {
    const int row = i / KEY_PIECES;
    const int piece = i % KEY_PIECES * 8;
    const bool is_inside = first + row < end;
    copy_async(shared_address(stage + row * KEY_ROW + piece),
               k + (is_inside ? first + row : 0) * k_stride + piece, is_inside);
  }
  T* values = stage + BK * KEY_ROW;
  for (int i = threadIdx.x; i < BK * VALUE_PIECES; i += 256) {
    const int row = i / VALUE_PIECES;
    const int piece = i % VALUE_PIECES * 8;
    const bool is_inside = first + row < end;
    copy_async(shared_address(values + row * VALUE_ROW + piece),
               v + (is_inside ? first + row : 0) * v_stride + piece, is_inside);
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(256, 1) KERNEL_NAME(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char memory[];
  T* stages = (T*)memory;
  const float infinity = __int_as_float(0x7f800000);

  // Tiles with the most keys first, where queries see different numbers of them.
  const i64 tile = p.n[0] - 1 - (i64)blockIdx.x % p.n[0];
  const i64 group = p.n[2];
  const i64 heads = p.n[1] * group;
  const i64 head = (i64)blockIdx.x / p.n[0] % heads;
  const i64 batch = (i64)blockIdx.x / p.n[0] / heads;
  const i64 num_queries = p.n[3];
  const i64 num_keys = p.n[4];
  const T* q = (const T*)p.p[0] + batch * p.n[5] + head * p.n[6];
  const T* k = (const T*)p.p[1] + batch * p.n[8] + head / group * p.n[9];
  const T* v = (const T*)p.p[2] + batch * p.n[11] + head / group * p.n[12];
  const float scale = (float)__longlong_as_double(p.n[21]);
  const float softcap = (float)__longlong_as_double(p.n[22]);

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const i64 rows[2] = {tile * 128 + warp * 16 + lane / 4, tile * 128 + warp * 16 + lane / 4 + 8};
  const int column = lane % 4 * 2;

  i64 visible = num_keys;
  i64 offset = p.n[24];
  if (p.p[4] != nullptr) {
    const i64 length = ((const i64*)p.p[4])[batch];
    offset = length - num_queries;
    visible = length < 0 ? 0 : length < visible ? length : visible;
  }
  i64 ends[2] = {visible, visible};
  i64 block_end = visible;
  if (p.n[23] != 0) {
    for (int h = 0; h < 2; ++h) {
      const i64 mine = rows[h] + offset + 1;
      ends[h] = mine < 0 ? 0 : mine < visible ? mine : visible;
    }
    const i64 last = tile * 128 + 127 + offset + 1;
    block_end = last < 0 ? 0 : last < visible ? last : visible;
  }

  u32 queries[D / 16][4];
#pragma unroll
  for (int d = 0; d < D / 16; ++d) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const i64 row = rows[i % 2];
      const int at = d * 16 + i / 2 * 8 + column;
      queries[d][i] = row < num_queries ? *(const u32*)(q + row * p.n[7] + at) : 0u;
    }
  }
  float result[E / 8][4];
#pragma unroll
  for (int e = 0; e < E / 8; ++e) {
    result[e][0] = result[e][1] = result[e][2] = result[e][3] = 0;
  }
  float most[2] = {-infinity, -infinity};
  float sums[2] = {0, 0};

  if (block_end > 0) load_tile(k, p.n[10], v, p.n[13], 0, num_keys, stages);
  int current = 0;
  for (i64 first = 0; first < block_end; first += BK) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();  // this tile is here, and nobody reads the other stage any more
    const T* keys = stages + current * STAGE;
    const T* values = keys + BK * KEY_ROW;
    current ^= 1;
    if (first + BK < block_end) {
      load_tile(k, p.n[10], v, p.n[13], first + BK, num_keys, stages + current * STAGE);
    }

    float scores[BK / 8][4];
#pragma unroll
    for (int n = 0; n < BK / 8; ++n) {
      scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
    }
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
#pragma unroll
      for (int n = 0; n < BK / 16; ++n) {
        const int row = n * 16 + lane / 16 * 8 + lane % 8;
        const int at = d * 16 + lane / 8 % 2 * 8;
        u32 b[4];
        load_matrices(b, shared_address(keys + row * KEY_ROW + at));
        mma(scores[2 * n], queries[d], b[0], b[1]);
        mma(scores[2 * n + 1], queries[d], b[2], b[3]);
      }
    }

    const bool is_checked = HAS_MASK || first + BK > visible || p.n[23] != 0;
    float largest[2] = {most[0], most[1]};
#pragma unroll
    for (int n = 0; n < BK / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float score = scores[n][i] * scale;
        if (softcap > 0) score = tanhf(score / softcap) * softcap;
        if (is_checked) {
          const i64 key = first + n * 8 + column + i % 2;
          const bool is_seen = key < ends[i / 2] && rows[i / 2] < num_queries;
#if HAS_MASK
          if (is_seen) {
            const i64 at = batch * p.n[17] + head * p.n[18] + rows[i / 2] * p.n[19] + key * p.n[20];
#if MASK_IS_BOOL
            if (((const b8*)p.p[3])[at] == 0) score = -infinity;
#else
            score += (float)widen(((const M*)p.p[3])[at]);
#endif
          }
#endif
          if (!is_seen) score = -infinity;
        }
        scores[n][i] = score;
        largest[i / 2] = fmaxf(largest[i / 2], score);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], 1));
      largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], 2));
      // Nothing seen so far: everything stays 0.
      const float base = largest[h] == -infinity ? 0 : largest[h];
      const float shrink = exp2f((most[h] - base) * LOG2E);
      most[h] = largest[h];
      float added = 0;
#pragma unroll
      for (int n = 0; n < BK / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float weight = exp2f((scores[n][2 * h + i] - base) * LOG2E);
          scores[n][2 * h + i] = weight;
          added += weight;
        }
      }
      sums[h] = sums[h] * shrink + added;
#pragma unroll
      for (int e = 0; e < E / 8; ++e) {
        result[e][2 * h] *= shrink;
        result[e][2 * h + 1] *= shrink;
      }
    }
#pragma unroll
    for (int n = 0; n < BK / 16; ++n) {
      const u32 weights[4] = {pack(scores[2 * n][0], scores[2 * n][1]),
                              pack(scores[2 * n][2], scores[2 * n][3]),
                              pack(scores[2 * n + 1][0], scores[2 * n + 1][1]),
                              pack(scores[2 * n + 1][2], scores[2 * n + 1][3])};
#pragma unroll
      for (int e = 0; e < E / 16; ++e) {
        const int row = n * 16 + lane / 8 % 2 * 8 + lane % 8;
        const int at = e * 16 + lane / 16 * 8;
        u32 b[4];
        load_transposed(b, shared_address(values + row * VALUE_ROW + at));
        mma(result[2 * e], weights, b[0], b[1]);
        mma(result[2 * e + 1], weights, b[2], b[3]);
      }
    }
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = sums[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const float factor = sum > 0 ? 1 / sum : 0;
    if (rows[h] >= num_queries) continue;
    T* out = result_of(p, batch, head, rows[h]);
#pragma unroll
    for (int e = 0; e < E / 8; ++e) {
      *(u32*)(out + e * 8 + column) =
          pack(result[e][2 * h] * factor, result[e][2 * h + 1] * factor);
    }
  }
}
