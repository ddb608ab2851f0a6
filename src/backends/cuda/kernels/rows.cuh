// Rows of which TEAM threads of a block of THREADS share one each. `parts` is shared memory for
// THREADS / 32 values; all threads of the block call together.
#define TEAMS (THREADS / TEAM)

template <class Sum>
__device__ __forceinline__ Sum sum_of_team(Sum mine, Sum* parts) {
#pragma unroll
  for (int step = (TEAM < 32 ? TEAM : 32) / 2; step > 0; step /= 2) {
    mine += __shfl_xor_sync(0xffffffffu, mine, step);
  }
  if (TEAM <= 32) return mine;
  __syncthreads();  // whoever read `parts` before is done with it
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  constexpr int warps = TEAM > 32 ? TEAM / 32 : 1;
  const Sum* own = parts + threadIdx.x / TEAM * warps;
  Sum total = 0;
#pragma unroll
  for (int i = 0; i < warps; ++i) total += own[i];
  return total;
}

// V elements side by side, through the cache that is for what nobody writes meanwhile.
template <class Type, int V>
__device__ __forceinline__ Pack<Type, V> load_pack(const Type* at) {
  constexpr int bytes = sizeof(Type) * V;
  typedef typename Word<(bytes > 16 ? 16 : bytes)>::type W;
  Pack<Type, V> pack;
#pragma unroll
  for (int i = 0; i < (bytes + 15) / 16; ++i) ((W*)&pack)[i] = __ldg((const W*)at + i);
  return pack;
}
