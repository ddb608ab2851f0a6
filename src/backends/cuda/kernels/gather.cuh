// Gather: out[o, i, :] = data[o, index[i], :], rows of words.
// p: data, indices, out, fault. n: words in all, divisor of a row, words of a row, divisor of the
// indices' count, that count, size of the axis, number of the kernel.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  typedef typename Word<WORD>::type W;
  FOR_EACH(i, p.n[0]) {
    const index_t item = divide(i, p.n[1]);
    const index_t word = i - item * (index_t)p.n[2];
    const index_t outer = divide(item, p.n[3]);
    const index_t at = item - outer * (index_t)p.n[4];
    const i64 index = checked_index<INDEX>(p.p[1], at, p.n[5], p.p[3], p.n[6]);
    if (index < 0) continue;
    ((W*)p.p[2])[i] = ((const W*)p.p[0])[((i64)outer * p.n[5] + index) * p.n[2] + word];
  }
}
