// What every kernel starts with: element types, conversions, index arithmetic, fault reports.
// Compiled by NVRTC, so there are no headers. Definitions such as T stand in front of these files,
// so names of one letter are the kernels', not these templates'. Semantics are those of the CPU
// backend.
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
typedef u8 b8;  // truth values: bytes of 0 and 1
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

// The parameters of every kernel: addresses, then numbers.
struct Params {
  void* p[NUM_POINTERS];
  i64 n[NUM_NUMBERS];
};

// The type that elements are computed in.
template <class Type>
struct ComputeOf {
  typedef Type type;
};
template <>
struct ComputeOf<f16> {
  typedef f32 type;
};
template <>
struct ComputeOf<bf16> {
  typedef f32 type;
};
template <class Type>
using Compute = typename ComputeOf<Type>::type;

template <class Type>
struct Traits {
  static constexpr bool is_float = false;
};
template <>
struct Traits<f32> {
  static constexpr bool is_float = true;
};
template <>
struct Traits<f64> {
  static constexpr bool is_float = true;
};

template <class Type>
__device__ __forceinline__ Type widen(Type x) {
  return x;
}
__device__ __forceinline__ f32 widen(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ f32 widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

template <class Type>
struct Narrow {
  template <class From>
  static __device__ __forceinline__ Type from(From x) {
    return (Type)x;
  }
};
template <>
struct Narrow<f16> {
  template <class From>
  static __device__ __forceinline__ f16 from(From x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"((f32)x));
    return y;
  }
};
template <>
struct Narrow<bf16> {
  template <class From>
  static __device__ __forceinline__ bf16 from(From x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"((f32)x));
    return y;
  }
};
template <class Type, class From>
__device__ __forceinline__ Type narrow(From x) {
  return Narrow<Type>::from(x);
}

// Division by a number of the parameters. 32 bits: by multiplication (Granlund and Montgomery 1994,
// "Division by invariant integers using multiplication"), for n < 2^31. 64 bits: plain.
__device__ __forceinline__ u32 divide(u32 n, i64 divisor) {
  return (__umulhi(n, (u32)divisor) + n) >> (u32)((u64)divisor >> 32);
}
__device__ __forceinline__ u64 divide(u64 n, i64 divisor) { return n / (u64)divisor; }

template <int bytes>
struct Word;
template <>
struct Word<1> {
  typedef u8 type;
};
template <>
struct Word<2> {
  typedef u16 type;
};
template <>
struct Word<4> {
  typedef u32 type;
};
template <>
struct Word<8> {
  typedef u64 type;
};
template <>
struct Word<16> {
  typedef uint4 type;
};

// V elements that are loaded and stored together.
template <class Type, int V>
struct alignas(sizeof(Type) * V > 16 ? 16 : sizeof(Type) * V) Pack {
  Type v[V];
};

// The first index out of range that any thread meets: {count, number of the kernel, index, size}.
__device__ __forceinline__ void report_index(void* fault, i64 kernel, i64 index, i64 size) {
  u64* words = (u64*)fault;
  if (atomicAdd(words, 1ull) == 0) {
    words[1] = (u64)kernel;
    words[2] = (u64)index;
    words[3] = (u64)size;
  }
}

// An index of i32 or i64, negative ones counted from the end; -1 and a report when out of range.
template <class Index>
__device__ __forceinline__ i64 checked_index(const void* indices, i64 at, i64 size, void* fault,
                                             i64 kernel) {
  const i64 given = (i64)((const Index*)indices)[at];
  const i64 index = given < 0 ? given + size : given;
  if (index >= 0 && index < size) return index;
  report_index(fault, kernel, given, size);
  return -1;
}

#define FOR_EACH(i, total)                                                               \
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < (index_t)(total); \
       i += (index_t)gridDim.x * blockDim.x)
