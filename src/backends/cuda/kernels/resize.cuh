// One axis of a resize: x [outer, in, inner] of X to y [outer, out, inner] of Y through tables of
// positions and weights, computed in C. p: x, y, index [out, taps], weight [out, taps].
// n: total, divisor of inner, inner, divisor of out, out, in.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  FOR_EACH(i, p.n[0]) {
    const index_t row = divide(i, p.n[1]);
    const index_t lane = i - row * (index_t)p.n[2];
    const index_t outer = divide(row, p.n[3]);
    const index_t at = row - outer * (index_t)p.n[4];
    const X* x = (const X*)p.p[0] + (i64)outer * p.n[5] * p.n[2] + lane;
    const i32* index = (const i32*)p.p[2] + (i64)at * TAPS;
#if IS_NEAREST
    ((Y*)p.p[1])[i] = x[index[0] * p.n[2]];
#else
    const f64* weight = (const f64*)p.p[3] + (i64)at * TAPS;
    C sum = 0;
    for (int t = 0; t < TAPS; ++t) sum += (C)weight[t] * (C)widen(x[index[t] * p.n[2]]);
    // Cubic weights overshoot: integers get what a cast gives.
    ((Y*)p.p[1])[i] = narrow<Y>(op_cast<Y>(sum));
#endif
  }
}
