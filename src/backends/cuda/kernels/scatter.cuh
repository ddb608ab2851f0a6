// Updates apply in their order, so that repeated indexes give one well-defined result: a thread
// owns what may collide and walks through it.
__device__ __forceinline__ void apply(T* to, T update) {
#if REDUCTION == 0
  *to = update;
#else
  typedef Compute<T> C;
  const C a = widen(*to);
  const C b = widen(update);
#if REDUCTION == 1
  *to = narrow<T>(op_add(a, b));
#elif REDUCTION == 2
  *to = narrow<T>(op_mul(a, b));
#elif REDUCTION == 3
  *to = narrow<T>(op_max(a, b));
#else
  *to = narrow<T>(op_min(a, b));
#endif
#endif
}

#if IS_ND
// A thread an element of the rows; it goes through all items.
// p: indices, updates, out, fault. n: elements of a row, items, number of the kernel; by index:
// size, stride in elements.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  FOR_EACH(i, p.n[0]) {
    for (i64 item = 0; item < p.n[1]; ++item) {
      i64 to = (i64)i;
      bool is_inside = true;
      for (int k = 0; k < DEPTH; ++k) {
        const i64 index =
            checked_index<INDEX>(p.p[0], item * DEPTH + k, p.n[3 + 2 * k], p.p[3], p.n[2]);
        is_inside = is_inside && index >= 0;
        to += index * p.n[4 + 2 * k];
      }
      if (is_inside) apply((T*)p.p[2] + to, ((const T*)p.p[1])[item * p.n[0] + i]);
    }
  }
}
#else
// A thread a line along the axis; only elements of one line can meet.
// p: indices, updates, out, fault. n: lines, elements of a line, their stride in the indices, size
// of the axis in the data, its stride there, number of the kernel; by other dimension: size of the
// indices, divisor, stride of the indices, stride of the data.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  FOR_EACH(i, p.n[0]) {
    index_t rest = i;
    i64 from = 0;
    i64 to = 0;
    for (int d = OTHERS - 1; d >= 0; --d) {
      const index_t next = divide(rest, p.n[7 + 4 * d]);
      const i64 at = (i64)(rest - next * (index_t)p.n[6 + 4 * d]);
      rest = next;
      from += at * p.n[8 + 4 * d];
      to += at * p.n[9 + 4 * d];
    }
    for (i64 k = 0; k < p.n[1]; ++k) {
      const i64 place = from + k * p.n[2];
      const i64 index = checked_index<INDEX>(p.p[0], place, p.n[3], p.p[3], p.n[5]);
      if (index >= 0) apply((T*)p.p[2] + to + index * p.n[4], ((const T*)p.p[1])[place]);
    }
  }
}
#endif
