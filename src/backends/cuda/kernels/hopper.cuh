// What compute capability 9.0 has of its own: barriers that copies report to, tiles of tensors
// copied by the copy engine, matrix units by warpgroups of 128 threads (PTX ISA: mbarrier,
// cp.async.bulk.tensor, wgmma). Compiled for sm_90a. After mma.cuh.

// A tensor of up to 5 dimensions as the copy engine reads it: tensor_map.h makes it.
struct alignas(64) TensorMap {
  u64 words[16];
};

__device__ __forceinline__ void init_barrier(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
// One arrival, and bytes that copies will bring before the phase ends.
__device__ __forceinline__ void expect_bytes(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// At the barrier that is in this place in another block of the cluster, or in this one.
__device__ __forceinline__ void arrive_at(u32 barrier, int block) {
  asm volatile(
      "{\n.reg .b32 place;\n"
      "mapa.shared::cluster.u32 place, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [place];\n}\n" ::"r"(barrier),
      "r"(block)
      : "memory");
}
// Until the phase of this parity has ended.
__device__ __forceinline__ void wait_for_phase(u32 barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra end;\nbra again;\nend:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// A box of a tensor of four dimensions to shared memory, zeros where it is outside of the tensor.
__device__ __forceinline__ void load_box(u32 target, const TensorMap* map, u32 barrier, int x0,
                                         int x1, int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(target),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}
// The same to that place of every block in `blocks` (a bit each), whose barriers there it reports
// to.
__device__ __forceinline__ void load_box_to(u16 blocks, u32 target, const TensorMap* map,
                                            u32 barrier, int x0, int x1, int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(target),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "h"(blocks)
      : "memory");
}

__device__ __forceinline__ int block_of_cluster() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

// Registers of a warpgroup's threads, of those that the block was launched with.
template <int count>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// An operand in shared memory in rows of 128 bytes whose words of 16 bytes are swizzled, as copies
// with that swizzle leave it. `leading` is the distance of columns of 128 bytes (for operands that
// are transposed), `step` that of eight rows, in bytes.
__device__ __forceinline__ u64 operand(u32 address, u32 leading, u32 step) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(step >> 4) << 32 |
         (u64)1 << 62;
}
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// For the products of all groups; their sums are not touched before.
template <int count>
__device__ __forceinline__ void wait_for_products(float (&sums)[count]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#if IS_BF16
#define HOPPER_TYPES "f32.bf16.bf16"
#else
#define HOPPER_TYPES "f32.f16.f16"
#endif
#define OPERANDS_32                                                                            \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define OPERANDS_64                                                                              \
  OPERANDS_32                                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SUMS_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS_16(d, i) SUMS_4(d, i), SUMS_4(d, i + 4), SUMS_4(d, i + 8), SUMS_4(d, i + 12)
#define SUMS_32(d) SUMS_16(d, 0), SUMS_16(d, 16)
#define SUMS_64(d) SUMS_32(d), SUMS_16(d, 32), SUMS_16(d, 48)

// sums [64, 128] = a [64, 16] b [128, 16]^T, plus what they were. Thread t has of the rows
// 16 * (t / 32) + t % 32 / 4 and that plus 8, for each i, the columns 8 * i + 2 * (t % 4) and the
// next: sums[4 * i] to sums[4 * i + 3].
__device__ __forceinline__ void add_products(float (&sums)[64], u64 a, u64 b, bool is_first) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.eq.b32 adds, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16." HOPPER_TYPES " {" OPERANDS_64
      "}, %64, %65, adds, 1, 1, 0, 0;\n}\n"
      : SUMS_64(sums)
      : "l"(a), "l"(b), "r"((int)is_first));
}
// sums [64, 128 or 64] += a [64, 16] b [16, 128 or 64]. a in pairs: rows and columns as of sums.
__device__ __forceinline__ void add_products(float (&sums)[64], const u32* a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16." HOPPER_TYPES " {" OPERANDS_64
               "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
               : SUMS_64(sums)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void add_products(float (&sums)[32], const u32* a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16." HOPPER_TYPES " {" OPERANDS_32
               "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
               : SUMS_32(sums)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
