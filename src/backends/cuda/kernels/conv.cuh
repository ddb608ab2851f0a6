// Plain convolutions: a thread an output element. Three spatial dimensions; missing ones have
// size 1. p: x, w, bias or null, y. n: total, out channels, in channels, group, then by dimension:
// in, out, kernel, stride, dilation, pad.
typedef Compute<T> C;

__device__ __forceinline__ i64 source_of(const i64* d, i64 out, i64 k) {
  i64 at;
  if (IS_TRANSPOSED) {
    at = out + d[5] - k * d[4];
    if (at < 0 || at % d[3] != 0) return -1;
    at /= d[3];
  } else {
    at = out * d[3] - d[5] + k * d[4];
  }
  return at >= 0 && at < d[0] ? at : -1;
}

extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  const i64* dz = p.n + 4;
  const i64* dr = p.n + 10;
  const i64* dq = p.n + 16;
  const i64 out_group = p.n[1] / p.n[3];
  const i64 in_group = p.n[2] / p.n[3];
  const i64 in_size = dz[0] * dr[0] * dq[0];
  const i64 kernel_size = dz[2] * dr[2] * dq[2];
  FOR_EACH(i, p.n[0]) {
    i64 rest = (i64)i;
    const i64 q = rest % dq[1];
    rest /= dq[1];
    const i64 r = rest % dr[1];
    rest /= dr[1];
    const i64 z = rest % dz[1];
    rest /= dz[1];
    const i64 channel = rest % p.n[1];
    const i64 batch = rest / p.n[1];
    const i64 first_in = channel / out_group * in_group;
    const T* x = (const T*)p.p[0] + (batch * p.n[2] + first_in) * in_size;
    // Weights are [o, c / group, k..], transposed [c, o / group, k..].
    const i64 w_step = (IS_TRANSPOSED ? out_group : 1) * kernel_size;
    const T* w = (const T*)p.p[1] +
                 (IS_TRANSPOSED ? first_in * out_group + channel % out_group : channel * in_group) *
                     kernel_size;
    C sum = p.p[2] == nullptr ? (C)0 : widen(((const T*)p.p[2])[channel]);
    for (i64 kz = 0; kz < dz[2]; ++kz) {
      const i64 sz = source_of(dz, z, kz);
      if (sz < 0) continue;
      for (i64 kr = 0; kr < dr[2]; ++kr) {
        const i64 sr = source_of(dr, r, kr);
        if (sr < 0) continue;
        for (i64 kq = 0; kq < dq[2]; ++kq) {
          const i64 sq = source_of(dq, q, kq);
          if (sq < 0) continue;
          const T* from = x + (sz * dr[0] + sr) * dq[0] + sq;
          const T* weight = w + (kz * dr[2] + kr) * dq[2] + kq;
          for (i64 c = 0; c < in_group; ++c) {
            sum += widen(from[c * in_size]) * widen(weight[c * w_step]);
          }
        }
      }
    }
    ((T*)p.p[3])[i] = narrow<T>(sum);
  }
}
