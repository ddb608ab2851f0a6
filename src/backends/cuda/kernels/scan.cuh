#if OPERATION == 0
// Cumulative sums: a thread a line. n: lines, divisor of inner, inner, size, exclusive, reverse.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  FOR_EACH(i, p.n[0]) {
    const index_t outer = divide(i, p.n[1]);
    const i64 inner = p.n[2];
    i64 at = (i64)outer * p.n[3] * inner + (i64)(i - outer * (index_t)inner);
    i64 step = inner;
    if (p.n[5] != 0) {
      at += (p.n[3] - 1) * inner;
      step = -inner;
    }
    Compute<T> sum = (Compute<T>)0;
    for (i64 k = 0; k < p.n[3]; ++k, at += step) {
      const Compute<T> element = widen(((const T*)p.p[0])[at]);
      if (p.n[4] != 0) ((T*)p.p[1])[at] = narrow<T>(sum);
      sum = op_add(sum, element);
      if (p.n[4] == 0) ((T*)p.p[1])[at] = narrow<T>(sum);
    }
  }
}
#elif OPERATION == 1
// Triangles. n: total, divisor of columns, columns, divisor of rows, rows, upper, k.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  FOR_EACH(i, p.n[0]) {
    const index_t line = divide(i, p.n[1]);
    const i64 column = (i64)(i - line * (index_t)p.n[2]);
    const index_t matrix = divide(line, p.n[3]);
    const i64 row = (i64)(line - matrix * (index_t)p.n[4]);
    const i64 away = column - row;
    const bool keeps = p.n[5] != 0 ? away >= p.n[6] : away <= p.n[6];
    ((T*)p.p[1])[i] = keeps ? ((const T*)p.p[0])[i] : (T)0;
  }
}
#else
// Reversed beginnings of sequences. p: x, lengths, out, fault. n: words in all, divisor of a row,
// words of a row, divisor of the second axis, its size, batch first, times, number of the kernel.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  FOR_EACH(i, p.n[0]) {
    const index_t item = divide(i, p.n[1]);
    const i64 word = (i64)(i - item * (index_t)p.n[2]);
    const index_t first = divide(item, p.n[3]);
    const i64 second = (i64)(item - first * (index_t)p.n[4]);
    const bool is_batch_first = p.n[5] != 0;
    const i64 batch = is_batch_first ? (i64)first : second;
    i64 time = is_batch_first ? second : (i64)first;
    const i64 length = ((const i64*)p.p[1])[batch];
    if (length < 0 || length > p.n[6]) {
      report_index(p.p[3], p.n[7], length, p.n[6]);
      continue;
    }
    if (time < length) time = length - 1 - time;
    const i64 from = is_batch_first ? batch * p.n[4] + time : time * p.n[4] + batch;
    ((T*)p.p[2])[i] = ((const T*)p.p[0])[from * p.n[2] + word];
  }
}
#endif
