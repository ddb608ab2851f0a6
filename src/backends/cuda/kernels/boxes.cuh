// Copies boxes between several buffers, in words of WORD bytes; one box a blockIdx.y.
// p: BUFFERS buffers, then the boxes, 18 words each: source buffer, offset there, target buffer,
// offset there, words in all, words of a run, then by dimension (4 of them, outermost first): size,
// and after those the strides of the source, and of the target. n: nothing.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  typedef typename Word<WORD>::type W;
  const i64* box = (const i64*)p.p[BUFFERS] + 18 * blockIdx.y;
  const W* source = (const W*)p.p[box[0]] + box[1];
  W* target = (W*)p.p[box[2]] + box[3];
  FOR_EACH(i, box[4]) {
    index_t rest = i / (index_t)box[5];
    i64 from = (i64)(i - rest * (index_t)box[5]);
    i64 to = from;
#pragma unroll
    for (int d = 3; d >= 0; --d) {
      const index_t next = rest / (index_t)box[6 + d];
      const i64 at = (i64)(rest - next * (index_t)box[6 + d]);
      rest = next;
      from += at * box[10 + d];
      to += at * box[14 + d];
    }
    target[to] = source[from];
  }
}
