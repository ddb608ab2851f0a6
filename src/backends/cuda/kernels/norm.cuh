// Rows of n elements are normalised; A accumulates.
// p: x, scale, bias, y. n: rows, n, epsilon as f64 bits, channels a group, elements a channel.
typedef Compute<T> C;

template <bool is_square>
__device__ __forceinline__ A sum_of(const T* x, i64 n, int lane, bool is_active, C mean, A* parts) {
  A total = 0;
  if (is_active) {
    for (i64 i = lane; i < n; i += TEAM) {
      const C value = widen(x[i]) - mean;
      total += (A)(is_square ? value * value : value);
    }
  }
  return team_combine(total, parts, AddParts());
}

extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  __shared__ A parts[256];
  const int lane = threadIdx.x % TEAM;
  const i64 n = p.n[1];
  const T* scale = (const T*)p.p[1];
  const T* bias = (const T*)p.p[2];
  FOR_EACH_ITEM(item, is_active, p.n[0]) {
    const T* x = (const T*)p.p[0] + item * n;
    T* y = (T*)p.p[3] + item * n;
    C mean = 0;
    if (IS_CENTRED) mean = (C)(sum_of<false>(x, n, lane, is_active, (C)0, parts) / (A)n);
    const A variance = sum_of<true>(x, n, lane, is_active, mean, parts) / (A)n;
    const C factor = (C)(1.0 / sqrt((f64)variance + __longlong_as_double(p.n[2])));
    if (!is_active) continue;
#if IS_GROUP
    const i64 first = item % p.n[5] * p.n[3];
    for (i64 i = lane; i < n; i += TEAM) {
      const i64 channel = first + i / p.n[4];
      C value = (widen(x[i]) - mean) * factor;
      if (scale != nullptr) value *= widen(scale[channel]);
      if (bias != nullptr) value += widen(bias[channel]);
      y[i] = narrow<T>(value);
    }
#else
    for (i64 i = lane; i < n; i += TEAM) {
      C value = (widen(x[i]) - mean) * factor;
      if (scale != nullptr) value *= widen(scale[i]);
      if (bias != nullptr) value += widen(bias[i]);
      y[i] = narrow<T>(value);
    }
#endif
  }
}
