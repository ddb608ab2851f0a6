// A mask as a bias that is finite: cuDNN makes NaN of a tile of -infinity. LEAST is so low that a
// key with it has no weight beside any other. p: mask, bias. n: elements.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  FOR_EACH(i, p.n[0]) {
#if MASK_IS_BOOL
    const float value = ((const b8*)p.p[0])[i] != 0 ? 0.0f : LEAST;
#else
    const float given = widen(((const T*)p.p[0])[i]);
    const float value = given < LEAST ? LEAST : given;  // NaN stays
#endif
    ((T*)p.p[1])[i] = narrow<T>(value);
  }
}
