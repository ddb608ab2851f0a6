// Attention over tiles of keys with a running maximum and sum (Milakov and Gimelshein 2018, "Online
// normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention"), without matrix units:
// any element type, mask and head size. A block has BQ queries of one head; LANES threads share a
// query. p: q, k, v, mask, key lengths, out. n: query tiles, kv heads, query heads a kv head,
// queries, keys, strides (batch, head, token) of q, k, v and out, strides of the mask (batch, head,
// query, key), scale and softcap as f64 bits, is causal, causal offset. After attention_places.cuh.
typedef Compute<T> C;
constexpr int LANES = 256 / BQ;
constexpr int COLUMNS = BK / LANES;
constexpr int OUTPUTS = (E + LANES - 1) / LANES;
constexpr int KEY_ROW = BK + 1;

__device__ __forceinline__ C least() { return (C)-__int_as_float(0x7f800000); }

extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* queries = (C*)memory;           // [BQ][D + 1]
  C* keys = queries + BQ * (D + 1);  // [D][BK + 1]
  C* values = keys + D * KEY_ROW;    // [BK][E]
  C* scores = values + BK * E;       // [BQ][BK + 1]

  const i64 tile = (i64)blockIdx.x % p.n[0];
  const i64 group = p.n[2];
  const i64 heads = p.n[1] * group;
  const i64 head = (i64)blockIdx.x / p.n[0] % heads;
  const i64 batch = (i64)blockIdx.x / p.n[0] / heads;
  const i64 first_query = tile * BQ;
  const i64 num_queries = p.n[3];
  const i64 num_keys = p.n[4];
  const T* q = (const T*)p.p[0] + batch * p.n[5] + head * p.n[6];
  const T* k = (const T*)p.p[1] + batch * p.n[8] + head / group * p.n[9];
  const T* v = (const T*)p.p[2] + batch * p.n[11] + head / group * p.n[12];
  const C scale = (C)__longlong_as_double(p.n[21]);
  const C softcap = (C)__longlong_as_double(p.n[22]);

  const int row = threadIdx.x / LANES;
  const int lane = threadIdx.x % LANES;
  const i64 query = first_query + row;

  // Keys that this query sees: [0, end); the block goes as far as its last query.
  i64 visible = num_keys;
  i64 offset = p.n[24];
  if (p.p[4] != nullptr) {
    const i64 length = ((const i64*)p.p[4])[batch];
    offset = length - num_queries;
    visible = length < 0 ? 0 : length < visible ? length : visible;
  }
  i64 end = visible;
  i64 block_end = visible;
  if (p.n[23] != 0) {
    const i64 mine = query + offset + 1;
    end = mine < 0 ? 0 : mine < end ? mine : end;
    const i64 last = first_query + BQ - 1 + offset + 1;
    block_end = last < 0 ? 0 : last < block_end ? last : block_end;
  }

  for (int i = threadIdx.x; i < BQ * D; i += 256) {
    const i64 at = first_query + i / D;
    queries[i / D * (D + 1) + i % D] =
        at < num_queries ? widen(q[at * p.n[7] + i % D]) * scale : (C)0;
  }

  C most = least();
  C sum = 0;
  C result[OUTPUTS];
#pragma unroll
  for (int j = 0; j < OUTPUTS; ++j) result[j] = 0;

  for (i64 first_key = 0; first_key < block_end; first_key += BK) {
    __syncthreads();
    for (int i = threadIdx.x; i < BK * D; i += 256) {
      const i64 at = first_key + i / D;
      keys[i % D * KEY_ROW + i / D] = at < num_keys ? widen(k[at * p.n[10] + i % D]) : (C)0;
    }
    for (int i = threadIdx.x; i < BK * E; i += 256) {
      const i64 at = first_key + i / E;
      values[i] = at < num_keys ? widen(v[at * p.n[13] + i % E]) : (C)0;
    }
    __syncthreads();
    C score[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) score[c] = 0;
    for (int d = 0; d < D; ++d) {
      const C x = queries[row * (D + 1) + d];
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) score[c] += x * keys[d * KEY_ROW + c * LANES + lane];
    }
    C largest = most;
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      const i64 key = first_key + c * LANES + lane;
      const bool is_seen = key < end && query < num_queries;
      if (softcap > (C)0) score[c] = tanh(score[c] / softcap) * softcap;
#if HAS_MASK
      if (is_seen) {
        const i64 at = batch * p.n[17] + head * p.n[18] + query * p.n[19] + key * p.n[20];
#if MASK_IS_BOOL
        if (((const b8*)p.p[3])[at] == 0) score[c] = least();
#else
        score[c] += (C)widen(((const M*)p.p[3])[at]);
#endif
      }
#endif
      if (!is_seen) score[c] = least();
      largest = score[c] > largest ? score[c] : largest;
    }
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) {
      const C other = __shfl_xor_sync(0xffffffffu, largest, step);
      largest = other > largest ? other : largest;
    }
    // Nothing seen so far: everything stays 0.
    const C base = largest == least() ? (C)0 : largest;
    const C shrink = exp(most - base);
    C added = 0;
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      const C weight = exp(score[c] - base);
      added += weight;
      scores[row * KEY_ROW + c * LANES + lane] = weight;
    }
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) {
      added += __shfl_xor_sync(0xffffffffu, added, step);
    }
    sum = sum * shrink + added;
    most = largest;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < OUTPUTS; ++j) result[j] *= shrink;
    for (int c = 0; c < BK; ++c) {
      const C weight = scores[row * KEY_ROW + c];
#pragma unroll
      for (int j = 0; j < OUTPUTS; ++j) {
        const int e = j * LANES + lane;
        if (E % LANES == 0 || e < E) result[j] += weight * values[c * E + e];
      }
    }
    __syncwarp();
  }
  if (query >= num_queries) return;
  const C factor = sum > (C)0 ? (C)1 / sum : (C)0;
  T* out = result_of(p, batch, head, query);
#pragma unroll
  for (int j = 0; j < OUTPUTS; ++j) {
    const int e = j * LANES + lane;
    if (e < E) out[e] = narrow<T>(result[j] * factor);
  }
}
