// Changes places between channels and space: [batch, R, C] to [batch, C, R] by tiles of 32 x 32,
// optionally with a bias by source column. p: source, target, bias or null. n: R, C, tiles of R,
// tiles of C.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  __shared__ T tile[32][33];
  const i64 rows = p.n[0];
  const i64 columns = p.n[1];
  const i64 column = (i64)blockIdx.x % p.n[3] * 32;
  const i64 row = (i64)blockIdx.x / p.n[3] % p.n[2] * 32;
  const i64 batch = (i64)blockIdx.x / p.n[3] / p.n[2];
  const int x = threadIdx.x % 32;
  const int y = threadIdx.x / 32;
  const T* source = (const T*)p.p[0] + batch * rows * columns;
#pragma unroll
  for (int i = y; i < 32; i += 8) {
    if (row + i < rows && column + x < columns) {
      tile[i][x] = source[(row + i) * columns + column + x];
    }
  }
  __syncthreads();
  T* target = (T*)p.p[1] + batch * rows * columns;
#pragma unroll
  for (int i = y; i < 32; i += 8) {
    if (column + i >= columns || row + x >= rows) continue;
    T value = tile[x][i];
    if (p.p[2] != nullptr) value = narrow<T>(widen(value) + widen(((const T*)p.p[2])[column + i]));
    target[(column + i) * rows + row + x] = value;
  }
}
