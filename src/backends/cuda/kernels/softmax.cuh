// Softmax and its logarithm over lines of n elements that are `inner` apart.
// n: lines, n, inner.
typedef Compute<T> C;

struct Larger {
  __device__ __forceinline__ C operator()(C a, C b) const { return a > b ? a : b; }
};

extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  __shared__ C parts[256];
  const int lane = threadIdx.x % TEAM;
  const i64 n = p.n[1];
  const i64 inner = p.n[2];
  FOR_EACH_ITEM(item, is_active, p.n[0]) {
    const i64 base = item / inner * n * inner + item % inner;
    const T* x = (const T*)p.p[0] + base;
    T* y = (T*)p.p[1] + base;
    C most = (C)-INFINITY_VALUE;
    if (is_active) {
      for (i64 i = lane; i < n; i += TEAM) {
        const C value = widen(x[i * inner]);
        most = value > most ? value : most;
      }
    }
    most = team_combine(most, parts, Larger());
    C sum = 0;
    if (is_active) {
      for (i64 i = lane; i < n; i += TEAM) sum += exp(widen(x[i * inner]) - most);
    }
    sum = team_combine(sum, parts, AddParts());
    if (!is_active) continue;
    const C last = IS_LOG ? most + log(sum) : (C)1 / sum;
    for (i64 i = lane; i < n; i += TEAM) {
      const C value = widen(x[i * inner]);
      y[i * inner] = narrow<T>(IS_LOG ? value - last : exp(value - most) * last);
    }
  }
}
