// Zeros in the rows of queries that see no key. A warp a row; a mask is read up to its first key
// that is seen. p: mask, key lengths, out. n: rows, heads, queries, keys, strides of out (batch,
// head, token), of the mask (batch, head, query, key), is causal, causal offset.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  const int lane = threadIdx.x % 32;
  const i64 warps = (i64)gridDim.x * blockDim.x / 32;
  for (i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; row < p.n[0]; row += warps) {
    const i64 query = row % p.n[2];
    const i64 head = row / p.n[2] % p.n[1];
    const i64 batch = row / p.n[2] / p.n[1];
    i64 end = p.n[3];
    i64 offset = p.n[12];
    if (p.p[1] != nullptr) {
      const i64 length = ((const i64*)p.p[1])[batch];
      offset = length - p.n[2];
      end = length < end ? length : end;
    }
    if (p.n[11] != 0 && query + offset + 1 < end) end = query + offset + 1;
    bool is_seen = end > 0;
#if HAS_MASK
    const i64 at = batch * p.n[7] + head * p.n[8] + query * p.n[9];
    is_seen = false;
    for (i64 first = 0; first < end && !is_seen; first += 32) {
      const i64 key = first + lane;
      bool mine = false;
      if (key < end) {
#if MASK_IS_BOOL
        mine = ((const b8*)p.p[0])[at + key * p.n[10]] != 0;
#else
        mine = !(widen(((const T*)p.p[0])[at + key * p.n[10]]) == -__int_as_float(0x7f800000));
#endif
      }
      is_seen = __any_sync(0xffffffffu, mine);
    }
#endif
    if (is_seen) continue;
    T* out = (T*)p.p[2] + batch * p.n[4] + head * p.n[5] + query * p.n[6];
    for (int e = lane; e < E; e += 32) out[e] = T{0};
  }
}
