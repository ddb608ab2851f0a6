// Copies a box of RANK dimensions between two strided places, in words of WORD bytes.
// n: total, source offset, target offset; by dimension: size, divisor, source and target stride.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  typedef typename Word<WORD>::type W;
  const W* source = (const W*)p.p[0] + p.n[1];
  W* target = (W*)p.p[1] + p.n[2];
  FOR_EACH(i, p.n[0]) {
    index_t rest = i;
    offset_t from = 0;
    offset_t to = 0;
#pragma unroll
    for (int d = RANK - 1; d >= 0; --d) {
      index_t at = rest;
      if (d > 0) {
        const index_t next = divide(rest, p.n[4 + 4 * d]);
        at = rest - next * (index_t)p.n[3 + 4 * d];
        rest = next;
      }
      from += (offset_t)at * (offset_t)p.n[5 + 4 * d];
      to += (offset_t)at * (offset_t)p.n[6 + 4 * d];
    }
    target[to] = source[from];
  }
}
