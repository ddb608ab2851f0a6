// Adds a bias to [batch, channels, inner] in place. p: y, bias. n: total, inner and channels as
// divisors, channels.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  T* y = (T*)p.p[0];
  const T* bias = (const T*)p.p[1];
  FOR_EACH(i, p.n[0]) {
    const index_t plane = divide(i, p.n[1]);
    const index_t channel = plane - divide(plane, p.n[2]) * (index_t)p.n[3];
    y[i] = narrow<T>(widen(y[i]) + widen(bias[channel]));
  }
}
