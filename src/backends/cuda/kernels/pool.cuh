// Maximum (KIND 0), average (1) and p-norm (2) over windows; a thread an output element.
// n: total, counts padding, p as f64 bits; by dimension: in, out, kernel, stride, dilation, pad
// before, pad after.
typedef Compute<T> C;

struct Range {
  i64 start, first, last, padded;
};
__device__ __forceinline__ i64 before(const i64* d, i64 start, i64 end) {
  if (end <= start) return 0;
  const i64 count = (end - start + d[4] - 1) / d[4];
  return count < d[2] ? count : d[2];
}
__device__ __forceinline__ Range range_of(const i64* d, i64 out) {
  Range range;
  range.start = out * d[3] - d[5];
  range.first = range.start < 0 ? (-range.start + d[4] - 1) / d[4] : 0;
  range.last = before(d, range.start, d[0]);
  range.padded = before(d, range.start, d[0] + d[6]);
  return range;
}

extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  const i64* dz = p.n + 3;
  const i64* dr = p.n + 10;
  const i64* dq = p.n + 17;
  FOR_EACH(i, p.n[0]) {
    i64 rest = (i64)i;
    const Range q = range_of(dq, rest % dq[1]);
    rest /= dq[1];
    const Range r = range_of(dr, rest % dr[1]);
    rest /= dr[1];
    const Range z = range_of(dz, rest % dz[1]);
    const T* x = (const T*)p.p[0] + rest / dz[1] * dz[0] * dr[0] * dq[0];
    C most = (C)LEAST;
    C sum = 0;
    i64 count = 0;
    for (i64 a = z.first; a < z.last; ++a) {
      for (i64 b = r.first; b < r.last; ++b) {
        const T* row = x + ((z.start + a * dz[4]) * dr[0] + r.start + b * dr[4]) * dq[0] + q.start;
        for (i64 c = q.first; c < q.last; ++c) {
          const C value = widen(row[c * dq[4]]);
          ++count;
#if KIND == 0
          most = most < value ? value : most;
#elif KIND == 1
          sum += value;
#else
          sum += pow(fabs(value), (C)__longlong_as_double(p.n[2]));
#endif
        }
      }
    }
#if KIND == 0
    ((T*)p.p[1])[i] = narrow<T>(most);
#elif KIND == 1
    if (p.n[1] != 0) count = z.padded * r.padded * q.padded;
    ((T*)p.p[1])[i] = narrow<T>(sum / (C)count);
#else
    ((T*)p.p[1])[i] = narrow<T>(pow(sum, (C)(1.0 / __longlong_as_double(p.n[2]))));
#endif
  }
}
