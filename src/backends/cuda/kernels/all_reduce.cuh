// out = op over all ranks' sources, in rank order. OP 0 sum, 1 max, 2 min.
// p: RANKS sources, out. n: elements.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  FOR_EACH(i, p.n[0]) {
    Compute<T> total = widen(((const T*)p.p[0])[i]);
    for (int r = 1; r < RANKS; ++r) {
      const Compute<T> next = widen(((const T*)p.p[r])[i]);
      total = OP == 0 ? op_add(total, next) : OP == 1 ? op_max(total, next) : op_min(total, next);
    }
    ((T*)p.p[RANKS])[i] = narrow<T>(total);
  }
}
