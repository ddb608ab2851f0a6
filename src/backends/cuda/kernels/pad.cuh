// Pads with elements of the source itself. MODE 0: reflect, 1: edge, 2: wrap.
// n: total; by dimension: target size, divisor, source size, pad before, source stride.
__device__ __forceinline__ i64 inside(i64 at, i64 size) {
  if (MODE == 1) return at < 0 ? 0 : at >= size ? size - 1 : at;
  if (MODE == 2) return ((at % size) + size) % size;
  if (size == 1) return 0;
  const i64 period = 2 * (size - 1);
  const i64 phase = ((at % period) + period) % period;
  return phase < size ? phase : period - phase;
}

extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  typedef typename Word<WORD>::type W;
  FOR_EACH(i, p.n[0]) {
    index_t rest = i;
    i64 from = 0;
#pragma unroll
    for (int d = RANK - 1; d >= 0; --d) {
      const index_t next = divide(rest, p.n[2 + 5 * d]);
      const i64 at = (i64)(rest - next * (index_t)p.n[1 + 5 * d]);
      rest = next;
      from += inside(at - p.n[4 + 5 * d], p.n[3 + 5 * d]) * p.n[5 + 5 * d];
    }
    ((W*)p.p[1])[i] = ((const W*)p.p[0])[from];
  }
}
