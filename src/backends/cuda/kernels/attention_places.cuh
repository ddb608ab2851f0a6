// Where results of attention go: into one tensor, or those of some queries elsewhere, such as into
// the memory of the ranks that read them. PLACES: how many; 0: one tensor. p: from 6 on, of each
// place its first query's. n: from 25 on, of each place its first query and strides (batch, token);
// the rest as in attention.cuh.
__device__ __forceinline__ T* result_of(const Params& p, i64 batch, i64 head, i64 query) {
#if PLACES
  int i = 0;
  while (i + 1 < PLACES && query >= p.n[25 + 3 * (i + 1)]) ++i;
  const i64* n = p.n + 25 + 3 * i;
  return (T*)p.p[6 + i] + batch * n[1] + head * p.n[15] + (query - n[0]) * n[2];
#else
  return (T*)p.p[5] + batch * p.n[14] + head * p.n[15] + query * p.n[16];
#endif
}
