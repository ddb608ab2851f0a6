// Elements ranked along one axis. Among equals the lower index comes first; NaN ranks above all.
template <class C>
__device__ __forceinline__ bool ranks_before(C a, C b) {
  if (a != a || b != b) return a != a && b == b;
  return LARGEST ? a > b : a < b;
}
struct Candidate {
  Compute<T> value;
  i64 index;  // -1: none
};
__device__ __forceinline__ bool comes_before(Candidate a, Candidate b) {
  if (a.index < 0 || b.index < 0) return a.index >= 0;
  if (ranks_before(a.value, b.value)) return true;
  if (ranks_before(b.value, a.value)) return false;
  return LAST ? a.index > b.index : a.index < b.index;
}

// A block a line: finds the best element that comes after the last one found, `found` times.
// p: x, indices, values (or null). n: lines, divisor of inner, inner, size, found.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  __shared__ Candidate best[256];
  for (index_t line = blockIdx.x; line < (index_t)p.n[0]; line += gridDim.x) {
    const index_t outer = divide(line, p.n[1]);
    const i64 lane = (i64)(line - outer * (index_t)p.n[2]);
    const i64 from = (i64)outer * p.n[3] * p.n[2] + lane;
    const i64 to = (i64)outer * p.n[4] * p.n[2] + lane;
    Candidate last;
    last.index = -1;
    last.value = 0;
    for (i64 k = 0; k < p.n[4]; ++k) {
      Candidate mine;
      mine.index = -1;
      mine.value = 0;
      for (i64 i = threadIdx.x; i < p.n[3]; i += blockDim.x) {
        Candidate candidate;
        candidate.index = i;
        candidate.value = widen(((const T*)p.p[0])[from + i * p.n[2]]);
        if (k > 0 && !comes_before(last, candidate)) continue;
        if (comes_before(candidate, mine)) mine = candidate;
      }
      best[threadIdx.x] = mine;
      __syncthreads();
      for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step && comes_before(best[threadIdx.x + step], best[threadIdx.x])) {
          best[threadIdx.x] = best[threadIdx.x + step];
        }
        __syncthreads();
      }
      last = best[0];
      if (threadIdx.x == 0) {
        ((i64*)p.p[1])[to + k * p.n[2]] = last.index;
        if (HAS_VALUES) {
          ((T*)p.p[2])[to + k * p.n[2]] = ((const T*)p.p[0])[from + last.index * p.n[2]];
        }
      }
      __syncthreads();
    }
  }
}
