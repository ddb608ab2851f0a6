// TEAM threads of a block of 256 work on one item; `combine` joins what each of them has. All
// threads of the block call it together. `parts` is shared memory for 256 values.
template <class Part, class Function>
__device__ __forceinline__ Part team_combine(Part mine, Part* parts, Function combine) {
  if (TEAM == 1) return mine;
  __syncthreads();  // whoever used `parts` before is done with it
  parts[threadIdx.x] = mine;
  __syncthreads();
#pragma unroll
  for (int step = TEAM / 2; step > 0; step /= 2) {
    if (threadIdx.x % TEAM < step) {
      parts[threadIdx.x] = combine(parts[threadIdx.x], parts[threadIdx.x + step]);
    }
    __syncthreads();
  }
  return parts[threadIdx.x / TEAM * TEAM];
}

struct AddParts {
  template <class Part>
  __device__ __forceinline__ Part operator()(Part a, Part b) const {
    return a + b;
  }
};

// Items of all teams of the grid, the same number of rounds for every thread of a block.
#define FOR_EACH_ITEM(item, is_active, total)                                   \
  for (i64 base_ = (i64)blockIdx.x * (256 / TEAM); base_ < (i64)(total);        \
       base_ += (i64)gridDim.x * (256 / TEAM))                                  \
    for (i64 item = base_ + threadIdx.x / TEAM, once_ = 0; once_ == 0; ++once_) \
      for (bool is_active = item < (i64)(total), twice_ = true; twice_; twice_ = false)
