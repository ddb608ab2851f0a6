// The numbers of queries and keys that cuDNN reads, i32 [2, batch]. p: key lengths (i64), target.
// n: batch, queries, keys.
extern "C" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ Params p) {
  i32* target = (i32*)p.p[1];
  FOR_EACH(i, p.n[0]) {
    const i64 length = ((const i64*)p.p[0])[i];
    target[i] = (i32)p.n[1];
    target[p.n[0] + i] = (i32)(length < 0 ? 0 : length < p.n[2] ? length : p.n[2]);
  }
}
