// Goes on with at most BK more keys where another attention kernel has stopped: `out` holds its
// result, statistics the logs of its sums of exp (Milakov and Gimelshein 2018, "Online normalizer
// calculation for softmax"). Bound by memory: a block keeps the keys and values of a kv head, its
// warps go through 16 queries of a head at a time, the next 16 already on their way. After mma.cuh.
// p: q, k, v, out, statistics (f32 [batch, head, query]). n: blocks a kv head, kv heads, query
// heads a kv head, queries, keys, strides (batch, head, token) of q, k, v and out, scale as f64
// bits.
constexpr int KEY_ROW = D + 8;  // elements; the padding keeps rows on different banks
constexpr int VALUE_ROW = E + 8;
constexpr int STAGE = 16 * (KEY_ROW + VALUE_ROW) + 32;  // queries, results, 16 statistics
constexpr float LOG2E = 1.4426950408889634f;

__device__ __forceinline__ void copy_word_async(u32 target, const void* source, bool is_inside) {
  const int bytes = is_inside ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(source), "r"(bytes)
               : "memory");
}

// Rows [first, first + count) of `width` elements, zeros from `end` on, by `threads` threads.
template <int width, int row_elements>
__device__ __forceinline__ void load_rows(const T* source, i64 stride, i64 first, int count,
                                          i64 end, T* target, int thread, int threads) {
  constexpr int PIECES = width / 8;
  for (int i = thread; i < count * PIECES; i += threads) {
    const int row = i / PIECES;
    const int piece = i % PIECES * 8;
    const bool is_inside = first + row < end;
    copy_async(shared_address(target + row * row_elements + piece),
               source + (is_inside ? first + row : 0) * stride + piece, is_inside);
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    KERNEL_NAME(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char memory[];
  T* keys = (T*)memory;
  T* values = keys + BK * KEY_ROW;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  T* stages = values + BK * VALUE_ROW + warp * 2 * STAGE;

  const i64 pair = (i64)blockIdx.x / p.n[0];
  const i64 batch = pair / p.n[1];
  const i64 kv_head = pair % p.n[1];
  const i64 group = p.n[2];
  const i64 num_queries = p.n[3];
  const i64 num_keys = p.n[4];
  const T* q = (const T*)p.p[0] + batch * p.n[5];
  const T* k = (const T*)p.p[1] + batch * p.n[8] + kv_head * p.n[9];
  const T* v = (const T*)p.p[2] + batch * p.n[11] + kv_head * p.n[12];
  T* out = (T*)p.p[3] + batch * p.n[14];
  const float* statistics = (const float*)p.p[4] + batch * p.n[1] * group * num_queries;
  const float scale = (float)__longlong_as_double(p.n[17]);

  const i64 step = p.n[0] * WARPS;
  const i64 items = (num_queries + 15) / 16 * group;
  i64 item = (i64)blockIdx.x % p.n[0] * WARPS + warp;
  const auto fetch = [&](i64 i, T* stage) {
    if (i < items) {
      const i64 head = kv_head * group + i % group;
      const i64 first = i / group * 16;
      load_rows<D, KEY_ROW>(q + head * p.n[6], p.n[7], first, 16, num_queries, stage, lane, 32);
      load_rows<E, VALUE_ROW>(out + head * p.n[15], p.n[16], first, 16, num_queries,
                              stage + 16 * KEY_ROW, lane, 32);
      if (lane < 16) {
        const bool is_inside = first + lane < num_queries;
        copy_word_async(shared_address((float*)(stage + 16 * (KEY_ROW + VALUE_ROW)) + lane),
                        statistics + head * num_queries + (is_inside ? first + lane : 0),
                        is_inside);
      }
    }
    end_copy_group();
  };
  load_rows<D, KEY_ROW>(k, p.n[10], 0, BK, num_keys, keys, threadIdx.x, 32 * WARPS);
  load_rows<E, VALUE_ROW>(v, p.n[13], 0, BK, num_keys, values, threadIdx.x, 32 * WARPS);
  fetch(item, stages);
  wait_for_copies<0>();
  __syncthreads();

  for (int current = 0; item < items; item += step, current ^= 1) {
    T* stage = stages + current * STAGE;
    fetch(item + step, stages + (current ^ 1) * STAGE);
    wait_for_copies<1>();
    __syncwarp();

    float scores[BK / 8][4];
#pragma unroll
    for (int n = 0; n < BK / 8; ++n) {
      scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
    }
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      u32 a[4];
      load_matrices(a, shared_address(stage + lane % 16 * KEY_ROW + d * 16 + lane / 16 * 8));
#pragma unroll
      for (int n = 0; n < BK / 16; ++n) {
        const int row = n * 16 + lane / 16 * 8 + lane % 8;
        u32 b[4];
        load_matrices(b, shared_address(keys + row * KEY_ROW + d * 16 + lane / 8 % 2 * 8));
        mma(scores[2 * n], a, b[0], b[1]);
        mma(scores[2 * n + 1], a, b[2], b[3]);
      }
    }

    T* results = stage + 16 * KEY_ROW;
    const float* logs = (const float*)(stage + 16 * (KEY_ROW + VALUE_ROW));
    const int column = lane % 4 * 2;
    float result[E / 8][4];
    float sums[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = lane / 4 + 8 * h;
      float largest = logs[row];
#pragma unroll
      for (int n = 0; n < BK / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[n][2 * h + i];
          score = n * 8 + column + i < num_keys ? score * scale : -__int_as_float(0x7f800000);
          largest = fmaxf(largest, score);
        }
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
      const float before = exp2f((logs[row] - largest) * LOG2E);
      float sum = 0;
#pragma unroll
      for (int n = 0; n < BK / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[n][2 * h + i];
          score = exp2f((score - largest) * LOG2E);
          sum += score;
        }
      }
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      sums[h] = sum + before;
#pragma unroll
      for (int e = 0; e < E / 8; ++e) {
        const u32 two = *(const u32*)(results + row * VALUE_ROW + e * 8 + column);
        result[e][2 * h] = before * widen(T{(u16)two});
        result[e][2 * h + 1] = before * widen(T{(u16)(two >> 16)});
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
        u32 b[4];
        load_transposed(b, shared_address(values + row * VALUE_ROW + e * 16 + lane / 16 * 8));
        mma(result[2 * e], weights, b[0], b[1]);
        mma(result[2 * e + 1], weights, b[2], b[3]);
      }
    }

    // By way of shared memory, so that rows are written in pieces of 16 bytes.
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float factor = 1 / sums[h];
#pragma unroll
      for (int e = 0; e < E / 8; ++e) {
        *(u32*)(results + (lane / 4 + 8 * h) * VALUE_ROW + e * 8 + column) =
            pack(result[e][2 * h] * factor, result[e][2 * h + 1] * factor);
      }
    }
    __syncwarp();
    const i64 first = item / group * 16;
    T* target = out + (kv_head * group + item % group) * p.n[15];
    for (int i = lane; i < 16 * (E / 8); i += 32) {
      const int row = i / (E / 8);
      const int piece = i % (E / 8) * 8;
      if (first + row >= num_queries) continue;
      *(uint4*)(target + (first + row) * p.n[16] + piece) =
          *(const uint4*)(results + row * VALUE_ROW + piece);
    }
    __syncwarp();  // before this stage is filled again
  }
}
