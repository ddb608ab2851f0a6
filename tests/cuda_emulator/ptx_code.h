// PTX instructions as functions: ptx.cpp makes a call of each asm statement, its name that of the
// instruction, its arguments the operands in their order. After device_code.h. Numbers and layouts
// of fragments: "Parallel Thread Execution ISA".
#pragma once

namespace emulated {

inline void ptx_cvt_f32_f16(float& y, unsigned short x) { y = from_f16(x); }
inline void ptx_cvt_rn_f16_f32(unsigned short& y, float x) { y = to_f16(x); }
inline void ptx_cvt_rn_bf16_f32(unsigned short& y, float x) { y = to_bf16(x); }
inline void ptx_cvt_rn_f16x2_f32(unsigned& y, float high, float low) {
  y = (unsigned)to_f16(high) << 16 | to_f16(low);
}
inline void ptx_cvt_rn_bf16x2_f32(unsigned& y, float high, float low) {
  y = (unsigned)to_bf16(high) << 16 | to_bf16(low);
}

// --- Copies that go on in the background
// ------------------------------------------------------------ They arrive when somebody waits for
// them, not earlier, so that a wait that is missing shows.
struct AsyncCopy {
  unsigned target;
  const void* source;
  int bytes, of;
};
struct AsyncCopies {
  static constexpr int kMost = 1024;
  AsyncCopy copies[kMost];
  int ends[64];  // of groups that are closed
  int count, groups;
};
inline AsyncCopies async_copies[1024];  // by thread of the block; empty between blocks

inline AsyncCopies& my_copies() { return async_copies[services->place->thread.x]; }

inline void add_copy(unsigned target, const void* source, int of, int bytes) {
  AsyncCopies& mine = my_copies();
  if (target % (unsigned)of != 0 || (unsigned long long)source % (unsigned)of != 0) {
    services->fail("cp.async of an address that is not aligned");
  }
  if (mine.count == AsyncCopies::kMost) services->fail("too many cp.async for the emulator");
  mine.copies[mine.count++] = {target, source, bytes, of};
}
inline void ptx_cp_async_cg_shared_global(unsigned target, const void* source, int of, int bytes) {
  add_copy(target, source, of, bytes);
}
inline void ptx_cp_async_ca_shared_global(unsigned target, const void* source, int of, int bytes) {
  add_copy(target, source, of, bytes);
}
inline void ptx_cp_async_commit_group() {
  AsyncCopies& mine = my_copies();
  if (mine.groups == 64) services->fail("too many groups of cp.async for the emulator");
  mine.ends[mine.groups++] = mine.count;
}
inline void ptx_cp_async_wait_group(int but) {
  AsyncCopies& mine = my_copies();
  const int done = mine.groups - but;
  if (done <= 0) return;
  const int end = mine.ends[done - 1];
  for (int i = 0; i < end; ++i) {
    const AsyncCopy& copy = mine.copies[i];
    unsigned char* target = services->dynamic_shared + copy.target;
    __builtin_memset(target, 0, (unsigned long)copy.of);
    __builtin_memcpy(target, copy.source, (unsigned long)copy.bytes);
  }
  for (int i = end; i < mine.count; ++i) mine.copies[i - end] = mine.copies[i];
  for (int i = done; i < mine.groups; ++i) mine.ends[i - done] = mine.ends[i] - end;
  mine.count -= end;
  mine.groups -= done;
}

// --- Matrix units -------------------------------------------------------------------------------
// Four 8x8 matrices of 16-bit elements; lanes 8 i to 8 i + 7 name the rows of matrix i. A lane gets
// two neighbours of row lane / 4 of each, or of column lane / 4 when they are transposed.
inline void load_matrices(unsigned* r, unsigned address, bool is_transposed) {
  const LanePacket* all = services->exchange(0xffffffffu, "ldmatrix", {{address}}, nullptr);
  for (unsigned i = 0; i < 4; ++i) {
    unsigned short two[2];
    for (unsigned j = 0; j < 2; ++j) {
      const unsigned major = lane() / 4;
      const unsigned minor = lane() % 4 * 2 + j;
      const unsigned row = is_transposed ? minor : major;
      const unsigned column = is_transposed ? major : minor;
      const unsigned long long from = all[8 * i + row].words[0];
      if (from % 16 != 0) services->fail("ldmatrix of an address that is not aligned");
      __builtin_memcpy(&two[j], services->dynamic_shared + from + 2 * column, 2);
    }
    r[i] = (unsigned)two[1] << 16 | two[0];
  }
}
inline void ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned& r0, unsigned& r1, unsigned& r2,
                                                         unsigned& r3, unsigned address) {
  unsigned r[4];
  load_matrices(r, address, false);
  r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3];
}
inline void ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(unsigned& r0, unsigned& r1,
                                                               unsigned& r2, unsigned& r3,
                                                               unsigned address) {
  unsigned r[4];
  load_matrices(r, address, true);
  r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3];
}

// d [16, 8] = a [16, 16] b [16, 8] + c. Element (row, k) of a is in lane row % 8 * 4 + k % 8 / 2,
// register row / 8 + k / 8 * 2, half k % 2; element (k, column) of b in lane column * 4 + k % 8 /
// 2, register k / 8; element (row, column) of c in lane row % 8 * 4 + column / 2, register row / 8
// * 2 + column % 2.
typedef float EightFloats __attribute__((vector_size(32)));

// From packets of a (two words) and b (one) to packets of the product (two).
template <float (*widen)(unsigned short)>
inline void multiply_warp(LanePacket* packets) {
  float a[16][16];
  EightFloats b[16];
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < 8; ++i) {  // halves of four registers
      const auto x = (unsigned short)(packets[lane].words[i / 4] >> (i % 4 * 16));
      a[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i % 2 + i / 4 * 8] = widen(x);
    }
    for (unsigned i = 0; i < 4; ++i) {
      const auto x = (unsigned short)(packets[lane].words[2] >> (i * 16));
      b[lane % 4 * 2 + i % 2 + i / 2 * 8][lane / 4] = widen(x);
    }
  }
  for (unsigned row = 0; row < 16; ++row) {
    EightFloats sums = {};
    for (unsigned k = 0; k < 16; ++k) sums += a[row][k] * b[k];
    for (unsigned lane = 0; lane < 4; ++lane) {
      const float two[] = {sums[2 * lane], sums[2 * lane + 1]};
      __builtin_memcpy(&packets[row % 8 * 4 + lane].words[row / 8], two, sizeof two);
    }
  }
}

template <float (*widen)(unsigned short)>
inline void multiply(float* d, const unsigned* a, const unsigned* b, const float* c) {
  LanePacket mine = {};
  for (int i = 0; i < 4; ++i) mine.words[i / 2] |= (unsigned long long)a[i] << (i % 2 * 32);
  for (int i = 0; i < 2; ++i) mine.words[2] |= (unsigned long long)b[i] << (i * 32);
  const LanePacket* all = services->exchange(0xffffffffu, "mma", mine, &multiply_warp<widen>);
  float sums[4];
  __builtin_memcpy(sums, all[lane()].words, sizeof sums);
  for (int i = 0; i < 4; ++i) d[i] = c[i] + sums[i];
}
#define EMULATED_MMA(name, widen)                                                          \
  inline void name(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1,   \
                   unsigned a2, unsigned a3, unsigned b0, unsigned b1, float c0, float c1, \
                   float c2, float c3) {                                                   \
    const unsigned a[] = {a0, a1, a2, a3};                                                 \
    const unsigned b[] = {b0, b1};                                                         \
    const float c[] = {c0, c1, c2, c3};                                                    \
    float d[4];                                                                            \
    multiply<widen>(d, a, b, c);                                                           \
    d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];                                            \
  }
EMULATED_MMA(ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, from_f16)
EMULATED_MMA(ptx_mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, from_bf16)
#undef EMULATED_MMA

}  // namespace emulated

// Shared memory is counted from the beginning of what a launch asks for.
inline unsigned long long __cvta_generic_to_shared(const void* p) {
  return (unsigned long long)((const unsigned char*)p - emulated::services->dynamic_shared);
}
