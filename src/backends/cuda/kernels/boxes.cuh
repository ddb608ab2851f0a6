// Copies boxes between several buffers, in words of WORD bytes. Every box has neighbouring blocks
// of its own, as many as its share of the words, so that boxes that take a slow way do not wait for
// the others. p: BUFFERS buffers, then words: for each block its box, then the boxes, 20 words
// each: source buffer, offset there, target buffer, offset there, words in all, words of a run,
// then by dimension (4 of them, outermost first, of which the last DIMS are used): size, and after
// those the strides of the source, and of the target; its first block, its number of blocks. n:
// nothing. Buffers may lie on other cards: each thread has several words on their way at a time.
__device__ __forceinline__ void locate(const i64* box, index_t i, i64* from, i64* to) {
  index_t rest = DIMS == 0 ? 0 : i / (index_t)box[5];
  *from = *to = (i64)(i - rest * (index_t)box[5]);
#pragma unroll
  for (int d = 3; d >= 4 - DIMS; --d) {
    const index_t next = d == 4 - DIMS ? 0 : rest / (index_t)box[6 + d];
    const i64 at = (i64)(rest - next * (index_t)box[6 + d]);
    rest = next;
    *from += at * box[10 + d];
    *to += at * box[14 + d];
  }
}

extern "C" __global__ void __launch_bounds__(256, 4) KERNEL_NAME(const __grid_constant__ Params p) {
  typedef typename Word<WORD>::type W;
  constexpr int kWords = 4;
  const i64* words_of = (const i64*)p.p[BUFFERS];
  const i64* box = words_of + gridDim.x + 20 * words_of[blockIdx.x];
  const W* source = (const W*)p.p[box[0]] + box[1];
  W* target = (W*)p.p[box[2]] + box[3];
  const index_t count = (index_t)box[4];
  const index_t step = (index_t)box[19] * blockDim.x;
  for (index_t i = (index_t)(blockIdx.x - box[18]) * blockDim.x + threadIdx.x; i < count;
       i += kWords * step) {
    W words[kWords];
    i64 to[kWords];
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      i64 from = 0;
      if (i + k * step < count) {
        locate(box, i + k * step, &from, &to[k]);
        words[k] = source[from];
      }
    }
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if (i + k * step < count) target[to[k]] = words[k];
    }
  }
}
