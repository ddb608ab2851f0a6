// start + i * step, computed in f64 or i64 so that rounding does not pile up. n: count.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  typedef WIDE W;
  const W start = (W)widen(*(const T*)p.p[0]);
  const W step = (W)widen(*(const T*)p.p[1]);
  FOR_EACH(i, p.n[0]) { ((T*)p.p[2])[i] = narrow<T>((Compute<T>)(start + (W)i * step)); }
}
