// out[i, j, ..] = data[index[i, j, ..], j, ..] for axis AXIS of RANK dimensions.
// p: data, indices, out, fault. n: total, size of the axis, number of the kernel; by dimension:
// size of the indices, divisor, stride of the data.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  typedef typename Word<WORD>::type W;
  FOR_EACH(i, p.n[0]) {
    const i64 index = checked_index<INDEX>(p.p[1], i, p.n[1], p.p[3], p.n[2]);
    if (index < 0) continue;
    index_t rest = i;
    i64 from = 0;
#pragma unroll
    for (int d = RANK - 1; d >= 0; --d) {
      const index_t next = divide(rest, p.n[4 + 3 * d]);
      const i64 at = d == AXIS ? index : (i64)(rest - next * (index_t)p.n[3 + 3 * d]);
      rest = next;
      from += at * p.n[5 + 3 * d];
    }
    ((W*)p.p[2])[i] = ((const W*)p.p[0])[from];
  }
}
