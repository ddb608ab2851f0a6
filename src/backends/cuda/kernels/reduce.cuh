// KIND 0 sum, 1 mean, 2 max, 3 min, 4 prod, 5 l1, 6 l2, 7 log_sum, 8 log_sum_exp, 9 sum_square.
// Elements T are computed in C and accumulated in A.
// n: results, elements of each; by kept dimension, then by reduced one: size, divisor, stride.
__device__ __forceinline__ i64 place(u64 index, const i64* dims, int count) {
  i64 offset = 0;
  for (int d = count - 1; d >= 0; --d) {
    index_t at = (index_t)index;
    if (d > 0) {
      const index_t next = divide((index_t)index, dims[3 * d + 1]);
      at = (index_t)index - next * (index_t)dims[3 * d];
      index = next;
    }
    offset += (i64)at * dims[3 * d + 2];
  }
  return offset;
}

template <class V>
struct Limits;
template <>
struct Limits<f32> {
  static __device__ f32 least() { return -__int_as_float(0x7f800000); }
  static __device__ f32 most() { return __int_as_float(0x7f800000); }
};
template <>
struct Limits<f64> {
  static __device__ f64 least() { return -__longlong_as_double(0x7ff0000000000000ll); }
  static __device__ f64 most() { return __longlong_as_double(0x7ff0000000000000ll); }
};
template <>
struct Limits<i64> {
  static __device__ i64 least() { return (i64)0x8000000000000000ull; }
  static __device__ i64 most() { return (i64)0x7fffffffffffffffull; }
};
template <>
struct Limits<u64> {
  static __device__ u64 least() { return 0; }
  static __device__ u64 most() { return ~0ull; }
};

template <int kind, class V>
__device__ __forceinline__ V identity() {
  if (kind == 2) return Limits<V>::least();
  if (kind == 3) return Limits<V>::most();
  return (V)(kind == 4 ? 1 : 0);
}
template <int kind>
struct Combine {
  template <class V>
  __device__ __forceinline__ V operator()(V a, V b) const {
    if (kind == 2) return op_max(a, b);
    if (kind == 3) return op_min(a, b);
    if (kind == 4) return op_mul(a, b);
    return op_add(a, b);
  }
};
template <int kind>
__device__ __forceinline__ C map(C x, C shift) {
  if (kind == 5) return op_abs(x);
  if (kind == 6 || kind == 9) return op_mul(x, x);
#if KIND == 8
  if (kind == 8) return exp(x - shift);
#endif
  return x;
}

template <int kind, class V>
__device__ V total_of(const Params& p, i64 base, int lane, bool is_active, C shift, V* parts) {
  const T* x = (const T*)p.p[0];
  V total = identity<kind, V>();
  if (is_active) {
    for (i64 r = lane; r < p.n[1]; r += TEAM) {
      const i64 at = base + place((u64)r, p.n + 2 + 3 * KEPT, REDUCED);
      total = Combine<kind>()(total, (V)map<kind>((C)widen(x[at]), shift));
    }
  }
  return team_combine(total, parts, Combine<kind>());
}

__device__ __forceinline__ C finish(A total, i64 count, C shift) {
#if KIND == 1
  if constexpr (!Traits<A>::is_float) return count == 0 ? (C)0 : (C)(total / (A)count);
  return (C)(total / (A)count);
#elif KIND == 6
  return (C)sqrt((f64)total);
#elif KIND == 7
  return (C)log((f64)total);
#elif KIND == 8
  return isfinite((f64)shift) ? (C)(log((f64)total) + (f64)shift) : shift;
#else
  return (C)total;
#endif
}

extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  __shared__ A parts[256];
  const int lane = threadIdx.x % TEAM;
  FOR_EACH_ITEM(item, is_active, p.n[0]) {
    const i64 base = is_active ? place((u64)item, p.n + 2, KEPT) : 0;
    C shift = (C)0;
#if KIND == 8
    shift = (C)total_of<2, A>(p, base, lane, is_active, (C)0, parts);
#endif
    const A total = total_of<KIND, A>(p, base, lane, is_active, shift, parts);
    if (is_active && lane == 0) {
      ((T*)p.p[1])[item] = narrow<T>((Compute<T>)finish(total, p.n[1], shift));
    }
  }
}
