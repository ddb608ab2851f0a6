// CUDA C++ for a host compiler: what stands in front of a kernel's text (nvrtc.cpp). No headers, as
// under NVRTC, so that a kernel compiles in a fraction of a second.
#pragma once

#include "kernel_border.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// Blocks run one after the other, so one copy does. The section lets the emulator spoil what the
// block before has left.
#define __shared__ static __attribute__((section("emulated_shared")))

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace emulated {
using namespace tutti::cuda_emulator;

inline KernelServices* services = nullptr;

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// Of 16-bit floats.
inline float from_f16(unsigned short bits) {
  if ((bits & 0x7c00u) == 0x7c00u) return (float)bits_as<_Float16>(bits);
  // Without a call: the exponent's bias changes by 112.
  const float size = bits_as<float>((bits & 0x7fffu) << 13) * 0x1p112f;
  return (bits & 0x8000u) != 0 ? -size : size;
}
inline float from_bf16(unsigned short bits) { return bits_as<float>((unsigned)bits << 16); }
inline unsigned short to_f16(float x) { return bits_as<unsigned short>((_Float16)x); }
inline unsigned short to_bf16(float x) {
  const unsigned bits = bits_as<unsigned>(x);
  if (x != x) return 0x7fff;
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
}  // namespace emulated

#define threadIdx (emulated::services->place->thread)
#define blockIdx (emulated::services->place->block)
#define blockDim (emulated::services->place->block_dim)
#define gridDim (emulated::services->place->grid_dim)

// --- Elementary functions, overloaded as CUDA has them
// ----------------------------------------------
#define EMULATED_FUNCTION(name)                                 \
  inline float name(float x) { return __builtin_##name##f(x); } \
  inline double name(double x) { return __builtin_##name(x); }
#define EMULATED_FUNCTION_OF_TWO(name)                                      \
  inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
  inline double name(double x, double y) { return __builtin_##name(x, y); }
EMULATED_FUNCTION(acos)
EMULATED_FUNCTION(acosh)
EMULATED_FUNCTION(asin)
EMULATED_FUNCTION(asinh)
EMULATED_FUNCTION(atan)
EMULATED_FUNCTION(atanh)
EMULATED_FUNCTION(ceil)
EMULATED_FUNCTION(cos)
EMULATED_FUNCTION(cosh)
EMULATED_FUNCTION(erf)
EMULATED_FUNCTION(exp)
EMULATED_FUNCTION(expm1)
EMULATED_FUNCTION(fabs)
EMULATED_FUNCTION(floor)
EMULATED_FUNCTION(log)
EMULATED_FUNCTION(log1p)
EMULATED_FUNCTION(rint)
EMULATED_FUNCTION(sin)
EMULATED_FUNCTION(sinh)
EMULATED_FUNCTION(sqrt)
EMULATED_FUNCTION(tan)
EMULATED_FUNCTION(tanh)
EMULATED_FUNCTION_OF_TWO(fmax)
EMULATED_FUNCTION_OF_TWO(fmin)
EMULATED_FUNCTION_OF_TWO(fmod)
EMULATED_FUNCTION_OF_TWO(pow)
#undef EMULATED_FUNCTION
#undef EMULATED_FUNCTION_OF_TWO

inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline float exp2f(float x) { return __builtin_exp2f(x); }
inline float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
inline float fminf(float x, float y) { return __builtin_fminf(x, y); }
inline float tanhf(float x) { return __builtin_tanhf(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }

inline float __expf(float x) { return __builtin_expf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __int_as_float(int x) { return emulated::bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return emulated::bits_as<float>(x); }
inline double __longlong_as_double(long long x) { return emulated::bits_as<double>(x); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return (unsigned)(((unsigned long long)x * y) >> 32);
}
template <class Type>
inline Type __ldg(const Type* at) {
  return *at;
}
inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long x) {
  const unsigned long long before = *at;  // one thread runs at a time
  *at = before + x;
  return before;
}

// --- Threads of a block, lanes of a warp
// ----------------------------------------------------------
inline void __syncthreads() { emulated::services->sync_threads(); }

inline void __syncwarp(unsigned mask = 0xffffffffu) {
  emulated::services->exchange(mask, "__syncwarp", {}, nullptr);
}

namespace emulated {
inline unsigned lane() { return services->place->thread.x % 32; }

template <class Type>
inline Type shuffle(unsigned mask, Type mine, unsigned source, const char* kind) {
  static_assert(sizeof(Type) <= 8);
  LanePacket packet = {};
  __builtin_memcpy(packet.words, &mine, sizeof mine);
  const LanePacket* all = services->exchange(mask, kind, packet, nullptr);
  if ((services->took_part() >> source & 1u) == 0)
    services->fail("a lane reads one that is not there");
  Type theirs;
  __builtin_memcpy(&theirs, all[source].words, sizeof theirs);
  return theirs;
}
}  // namespace emulated

template <class Type>
inline Type __shfl_xor_sync(unsigned mask, Type mine, int lanes) {
  return emulated::shuffle(mask, mine, emulated::lane() ^ (unsigned)lanes, "__shfl_xor_sync");
}
inline int __any_sync(unsigned mask, int mine) {
  const tutti::cuda_emulator::LanePacket* all =
      emulated::services->exchange(mask, "__any_sync", {{mine != 0}}, nullptr);
  const unsigned live = emulated::services->took_part();
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((live >> lane & 1u) != 0 && all[lane].words[0] != 0) return 1;
  }
  return 0;
}

#include "ptx_code.h"
