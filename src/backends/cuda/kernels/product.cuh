// A plain product in tiles of 16 x 16: integers, and what cuBLASLt has no form for.
// c[z, i, j] = sum over k of a[za, i, k] b[zb, k, j]; S accumulates.
// p: a, b, c, offsets (two i64 a matrix: of a and b in elements). n: rows, columns, k, stride of b
// along k, stride of b along j, blocks along the columns.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  __shared__ S tile_a[16][17];
  __shared__ S tile_b[16][17];
  const int x = threadIdx.x % 16;
  const int y = threadIdx.x / 16;
  const i64 rows = p.n[0];
  const i64 columns = p.n[1];
  const i64 depth = p.n[2];
  const i64 i = (i64)(blockIdx.x / p.n[5]) * 16 + y;
  const i64 j = (i64)(blockIdx.x % p.n[5]) * 16 + x;
  const i64* offsets = (const i64*)p.p[3] + 2 * blockIdx.y;
  const T* a = (const T*)p.p[0] + offsets[0];
  const T* b = (const T*)p.p[1] + offsets[1];
  S sum = 0;
  for (i64 first = 0; first < depth; first += 16) {
    const i64 ka = first + x;
    const i64 kb = first + y;
    tile_a[y][x] = i < rows && ka < depth ? (S)widen(a[i * depth + ka]) : (S)0;
    tile_b[y][x] = j < columns && kb < depth ? (S)widen(b[kb * p.n[3] + j * p.n[4]]) : (S)0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  if (i < rows && j < columns) {
    ((T*)p.p[2])[((i64)blockIdx.y * rows + i) * columns + j] = narrow<T>((Compute<T>)sum);
  }
}
