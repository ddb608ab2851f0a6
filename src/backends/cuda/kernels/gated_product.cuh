// Two products of one operand, combined element by element: y = combine(a g, a u), on Hopper's matrix
// units. a: [m, k], g and u: [k, n], y: [m, n], 16 bits, sums in f32. Blocks come in clusters of two that
// have different rows and share the columns: each loads its own rows and half of what both need. One
// warpgroup loads ahead (TMA, Shah et al. 2024 describe the scheme), two multiply 64 rows each by 128
// columns of g and the same ones of u, so both numbers that an element needs are in one thread.
// Needs sm_90a, blocks of 384 threads, and WGMMA_TYPE ("bf16" or "f16") and IS_TRANSPOSED defined: 1 where g
// and u are [n, k].
struct alignas(64) TensorMap {
  u64 words[16];
};
struct ProductParams {
  TensorMap a, g, u;
  void* y;
  i64 m, n, k;
};

__device__ __forceinline__ f32 combine(f32 x0, f32 x1);

namespace gated {
constexpr int kRows = 128;     // of a block's tile
constexpr int kColumns = 128;  // of each product
constexpr int kDepth = 64;     // of a stage
constexpr int kStages = 4;
constexpr u32 kBytesA = kRows * kDepth * 2;
constexpr u32 kBytesB = 2 * kColumns * kDepth * 2;
constexpr u32 kBox = 64 * kDepth * 2;  // 64 columns of g or u
constexpr int kPanel = 8;              // pairs of row tiles that go through the columns together

__device__ __forceinline__ u32 shared_address(const void* at) {
  return (u32)__cvta_generic_to_shared(at);
}
__device__ __forceinline__ void init_barrier(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void expect_bytes(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ready;\nbra again;\nready:\n}" ::"r"(barrier), "r"(parity)
      : "memory");
}
// At the same barrier of block `block` of the cluster.
__device__ __forceinline__ void arrive_at(u32 barrier, u32 block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(block)
      : "memory");
}
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ void load(u32 to, const TensorMap& map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
// To the same place of both blocks, at whose barriers its bytes count.
__device__ __forceinline__ void load_for_both(u32 to, const TensorMap& map, int x, int y,
                                              u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier),
      "h"((u16)3)
      : "memory");
}

// Descriptors of operands in shared memory, swizzled over 128 bytes (PTX ISA, wgmma matrix
// descriptor). `leading` is the distance of 64 columns, where the operand runs along columns.
__device__ __forceinline__ u64 descriptor(u32 address, u32 leading) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(1024 >> 4) << 32 |
         (u64)1 << 62;
}

__device__ __forceinline__ void multiply(f32 (&d)[128], u64 a, u64 b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." WGMMA_TYPE "." WGMMA_TYPE " {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, p, 1, 1, 0, %131;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
        "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
        "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
        "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b), "r"(adds), "n"(IS_TRANSPOSED ? 0 : 1));
}

struct Tile {
  int row, column;
};
// Tiles of clusters: panels of rows go through all columns, so that both stay in the cache.
__device__ __forceinline__ Tile tile_at(u32 tile, u32 pairs, u32 columns, u32 rank) {
  const u32 panel = tile / (kPanel * columns);
  const u32 rest = tile - panel * kPanel * columns;
  const u32 first = panel * kPanel;
  const u32 height = pairs - first < kPanel ? pairs - first : kPanel;
  return {(int)(((first + rest % height) * 2 + rank) * kRows), (int)(rest / height * kColumns)};
}

__device__ __forceinline__ u32 pair_of(f32 low, f32 high) {
  return (u32)narrow<T>(low).bits | (u32)narrow<T>(high).bits << 16;
}

// Four words of four neighbouring lanes change places, so that each lane has one lane's words.
__device__ __forceinline__ void transpose(u32 (&w)[4], int lane) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const u32 got = __shfl_xor_sync(0xffffffffu, lane & 1 ? w[i] : w[i + 1], 1);
    if (lane & 1) {
      w[i] = got;
    } else {
      w[i + 1] = got;
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const u32 got = __shfl_xor_sync(0xffffffffu, lane & 2 ? w[i] : w[i + 2], 2);
    if (lane & 2) {
      w[i] = got;
    } else {
      w[i + 2] = got;
    }
  }
}

__device__ __forceinline__ void store(const f32 (&d)[128], T* y, i64 m, i64 n, Tile at, int thread) {
  const int lane = thread % 32;
  const i64 row = at.row + thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
      u32 w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int e = (j + i) * 4 + half * 2;
        w[i] = pair_of(combine(d[e], d[e + 64]), combine(d[e + 1], d[e + 65]));
      }
      transpose(w, lane);
      const i64 r = row + half * 8;
      if (r < m) {
        *(uint4*)(y + r * n + at.column + (j + lane % 4) * 8) = make_uint4(w[0], w[1], w[2], w[3]);
      }
    }
  }
}
}  // namespace gated

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
    KERNEL_NAME(const __grid_constant__ ProductParams p) {
  using namespace gated;
  extern __shared__ u8 raw[];
  __shared__ alignas(8) u64 barriers[2 * kStages];
  const u32 operands = (shared_address(raw) + 1023) & ~1023u;
  const u32 full = shared_address(barriers);
  const u32 empty = full + 8 * kStages;
  u32 rank;
  asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  const u32 pairs = (u32)((p.m + 2 * kRows - 1) / (2 * kRows));
  const u32 columns = (u32)(p.n / kColumns);
  const int steps = (int)((p.k + kDepth - 1) / kDepth);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(full + 8 * i, 1);
      init_barrier(empty + 8 * i, 4);  // two warpgroups of two blocks
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  sync_cluster();
  u32 stage = 0;
  u32 phase = 0;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (u32 t = blockIdx.x / 2; t < pairs * columns; t += gridDim.x / 2) {
        const Tile at = tile_at(t, pairs, columns, rank);
        for (int step = 0; step < steps; ++step) {
          const u32 barrier = full + 8 * stage;
          const u32 to = operands + stage * (kBytesA + kBytesB);
          wait(empty + 8 * stage, phase ^ 1);
          expect_bytes(barrier, kBytesA + kBytesB);
          load(to, p.a, step * kDepth, at.row, barrier);
          const TensorMap& mine = rank == 0 ? p.g : p.u;
          const u32 half = to + kBytesA + rank * (kBytesB / 2);
          if (IS_TRANSPOSED) {
            load_for_both(half, mine, step * kDepth, at.column, barrier);
          } else {
            load_for_both(half, mine, at.column, step * kDepth, barrier);
            load_for_both(half + kBox, mine, at.column + 64, step * kDepth, barrier);
          }
          if (++stage == kStages) {
            stage = 0;
            phase ^= 1;
          }
        }
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int group = threadIdx.x / 128 - 1;
    const int thread = threadIdx.x % 128;
    f32 d[128];
    for (u32 t = blockIdx.x / 2; t < pairs * columns; t += gridDim.x / 2) {
      Tile at = tile_at(t, pairs, columns, rank);
      u32 before = 0;
      for (int step = 0; step < steps; ++step) {
        wait(full + 8 * stage, phase);
        const u32 a = operands + stage * (kBytesA + kBytesB) + group * 64 * kDepth * 2;
        const u32 b = operands + stage * (kBytesA + kBytesB) + kBytesA;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i) {
          const u64 weights = IS_TRANSPOSED ? descriptor(b + i * 32, 16) : descriptor(b + i * 2048, kBox);
          multiply(d, descriptor(a + i * 32, 16), weights, step + i > 0);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (step > 0 && thread < 2) arrive_at(empty + 8 * before, thread);
        before = stage;
        if (++stage == kStages) {
          stage = 0;
          phase ^= 1;
        }
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (thread < 2) arrive_at(empty + 8 * before, thread);
      at.row += group * 64;
      store(d, (T*)p.y, p.m, p.n, at, thread);
    }
  }
  sync_cluster();
}
