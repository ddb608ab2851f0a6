// out[item, :] = data[batch, index[item, 0], .., :]. DEPTH indexes an item.
// p: data, indices, out, fault. n: words in all, divisor of a row, words of a row, divisor of the
// items a batch, words of a batch of the data, number of the kernel; by index: size, stride in
// words.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  typedef typename Word<WORD>::type W;
  FOR_EACH(i, p.n[0]) {
    const index_t item = divide(i, p.n[1]);
    i64 from = (i64)(i - item * (index_t)p.n[2]) + (i64)divide(item, p.n[3]) * p.n[4];
    bool is_inside = true;
    for (int k = 0; k < DEPTH; ++k) {
      const i64 index =
          checked_index<INDEX>(p.p[1], (i64)item * DEPTH + k, p.n[6 + 2 * k], p.p[3], p.n[5]);
      is_inside = is_inside && index >= 0;
      from += index * p.n[7 + 2 * k];
    }
    if (is_inside) ((W*)p.p[2])[i] = ((const W*)p.p[0])[from];
  }
}
