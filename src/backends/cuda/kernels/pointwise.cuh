// The operations of pointwise regions, one function each, on compute types.
template <class Type>
struct Unsigned {
  typedef u32 type;
};
template <>
struct Unsigned<i64> {
  typedef u64 type;
};
template <>
struct Unsigned<u64> {
  typedef u64 type;
};

// Integers wrap around.
template <class Type>
__device__ __forceinline__ Type op_add(Type a, Type b) {
  if constexpr (Traits<Type>::is_float) return a + b;
  typedef typename Unsigned<Type>::type Wrapping;
  return (Type)((Wrapping)a + (Wrapping)b);
}
template <class Type>
__device__ __forceinline__ Type op_sub(Type a, Type b) {
  if constexpr (Traits<Type>::is_float) return a - b;
  typedef typename Unsigned<Type>::type Wrapping;
  return (Type)((Wrapping)a - (Wrapping)b);
}
template <class Type>
__device__ __forceinline__ Type op_mul(Type a, Type b) {
  if constexpr (Traits<Type>::is_float) return a * b;
  typedef typename Unsigned<Type>::type Wrapping;
  return (Type)((Wrapping)a * (Wrapping)b);
}
template <class Type>
__device__ __forceinline__ Type op_div(Type a, Type b) {
  if constexpr (Traits<Type>::is_float) {
    return a / b;
  } else {
    if (b == 0) return 0;
    if constexpr ((Type)-1 < (Type)0) {
      if (b == (Type)-1) return op_sub((Type)0, a);
    }
    return (Type)(a / b);
  }
}
template <class Type>
__device__ __forceinline__ Type op_max(Type a, Type b) {
  return a > b || a != a ? a : b;
}
template <class Type>
__device__ __forceinline__ Type op_min(Type a, Type b) {
  return a < b || a != a ? a : b;
}
template <class Type>
__device__ __forceinline__ Type op_fmod(Type a, Type b) {
  if constexpr (Traits<Type>::is_float) {
    return fmod(a, b);
  } else {
    if (b == 0) return 0;
    if constexpr ((Type)-1 < (Type)0) {
      if (b == (Type)-1) return 0;
    }
    return (Type)(a % b);
  }
}
template <class Type>
__device__ __forceinline__ Type op_floor_mod(Type a, Type b) {
  const Type rest = op_fmod(a, b);
  return rest != (Type)0 && (rest < (Type)0) != (b < (Type)0) ? op_add(rest, b) : rest;
}
template <class Type>
__device__ __forceinline__ Type op_pow(Type base, Type exponent) {
  if constexpr (Traits<Type>::is_float) {
    return pow(base, exponent);
  } else {
    if constexpr ((Type)-1 < (Type)0) {
      if (exponent < 0) {
        if (base == 1) return 1;
        if (base == (Type)-1) return exponent % 2 == 0 ? (Type)1 : (Type)-1;
        return 0;
      }
    }
    Type result = 1;
    for (u64 left = (u64)exponent; left != 0; left >>= 1) {
      if ((left & 1) != 0) result = op_mul(result, base);
      base = op_mul(base, base);
    }
    return result;
  }
}
template <class Type>
__device__ __forceinline__ Type op_prelu(Type a, Type b) {
  return a < (Type)0 ? op_mul(a, b) : a;
}
template <class Type>
__device__ __forceinline__ Type op_abs(Type x) {
  if constexpr (Traits<Type>::is_float) return fabs(x);
  return x < (Type)0 ? op_sub((Type)0, x) : x;
}
template <class Type>
__device__ __forceinline__ Type op_neg(Type x) {
  if constexpr (Traits<Type>::is_float) return -x;
  return op_sub((Type)0, x);
}
template <class Type>
__device__ __forceinline__ Type op_sign(Type x) {
  return x != x ? x : (Type)((x > (Type)0 ? 1 : 0) - (x < (Type)0 ? 1 : 0));
}
template <class Type>
__device__ __forceinline__ Type op_relu(Type x) {
  return x < (Type)0 ? (Type)0 : x;
}
template <class Type>
__device__ __forceinline__ Type op_clip(Type x, Type low, Type high) {
  const Type raised = x < low ? low : x;
  return raised > high ? high : raised;
}

template <class Type>
__device__ __forceinline__ Type op_sigmoid(Type x) {
  return (Type)1 / ((Type)1 + exp(-x));
}
template <class Type>
__device__ __forceinline__ Type op_softplus(Type x) {
  return (x > (Type)0 ? x : (Type)0) + log1p(exp(-fabs(x)));
}
template <class Type>
__device__ __forceinline__ Type op_gelu(Type x) {
  return (Type)0.5 * x * ((Type)1 + erf(x * (Type)0.70710678118654752));
}
template <class Type>
__device__ __forceinline__ Type op_gelu_tanh(Type x) {
  return (Type)0.5 * x *
         ((Type)1 + tanh((Type)0.79788456080286536 * (x + (Type)0.044715 * x * x * x)));
}
template <class Type>
__device__ __forceinline__ Type op_silu(Type x) {
  return x * op_sigmoid(x);
}
template <class Type>
__device__ __forceinline__ Type op_mish(Type x) {
  return x * tanh(op_softplus(x));
}
template <class Type>
__device__ __forceinline__ Type op_elu(Type x, Type alpha) {
  return x < (Type)0 ? alpha * expm1(x) : x;
}
template <class Type>
__device__ __forceinline__ Type op_selu(Type x, Type alpha, Type gamma) {
  return gamma * (x < (Type)0 ? alpha * expm1(x) : x);
}
template <class Type>
__device__ __forceinline__ Type op_celu(Type x, Type alpha) {
  return x < (Type)0 ? alpha * expm1(x / alpha) : x;
}
template <class Type>
__device__ __forceinline__ Type op_leaky_relu(Type x, Type alpha) {
  return x < (Type)0 ? alpha * x : x;
}
template <class Type>
__device__ __forceinline__ Type op_thresholded_relu(Type x, Type alpha) {
  return x > alpha ? x : (Type)0;
}
template <class Type>
__device__ __forceinline__ Type clamp01(Type x) {
  const Type low = x < (Type)0 ? (Type)0 : x;
  return low > (Type)1 ? (Type)1 : low;
}
template <class Type>
__device__ __forceinline__ Type op_hard_sigmoid(Type x, Type alpha, Type beta) {
  return clamp01(alpha * x + beta);
}
template <class Type>
__device__ __forceinline__ Type op_hard_swish(Type x) {
  return x * clamp01(x / (Type)6 + (Type)0.5);
}
template <class Type>
__device__ __forceinline__ Type op_softsign(Type x) {
  return x / ((Type)1 + fabs(x));
}
template <class Type>
__device__ __forceinline__ Type op_reciprocal(Type x) {
  return (Type)1 / x;
}
template <class Type>
__device__ __forceinline__ Type op_square(Type x) {
  return op_mul(x, x);
}
template <class Type>
__device__ __forceinline__ Type op_cube(Type x) {
  return op_mul(op_mul(x, x), x);
}

template <class Type>
__device__ __forceinline__ Type op_shift_left(Type a, Type b) {
  const u64 by = sizeof(Type) == 8 ? (u64)b : (u64)b & (~0ull >> (64 - sizeof(Type) * 8));
  return by >= sizeof(Type) * 8 ? (Type)0 : (Type)((u64)a << by);
}
template <class Type>
__device__ __forceinline__ Type op_shift_right(Type a, Type b) {
  const u64 by = sizeof(Type) == 8 ? (u64)b : (u64)b & (~0ull >> (64 - sizeof(Type) * 8));
  return by >= sizeof(Type) * 8 ? (Type)0 : (Type)(a >> by);
}
template <class Type>
__device__ __forceinline__ b8 op_is_inf(Type x, bool negative, bool positive) {
  return isinf(x) && (x > (Type)0 ? positive : negative);
}

// Truncates towards zero. What does not fit saturates at 64 bits (32 for i32) and then keeps the
// low bits.
template <class To, class Type>
__device__ __forceinline__ To float_to_integer(Type x) {
  if (x != x) return 0;
  if constexpr (sizeof(To) == 4 && (To)-1 < (To)0) {
    const Type low = x < (Type)-2147483648.0 ? (Type)-2147483648.0 : x;
    return (To)(low > (Type)2147483520.0 ? (Type)2147483520.0 : low);
  } else {
    constexpr Type limit = (Type)9223372036854775808.0;
    if constexpr (sizeof(To) == 8 && (To)-1 > (To)0) {
      if (x >= limit) return x >= limit * (Type)2 ? ~(u64)0 : (u64)x;
    }
    if (x >= limit) return (To)(i64)0x7fffffffffffffffll;
    if (x < -limit) return (To)(i64)0x8000000000000000ull;
    return (To)(i64)x;
  }
}
template <class To, class Type>
__device__ __forceinline__ Compute<To> op_cast(Type x) {
  if constexpr (Traits<Type>::is_float && !Traits<Compute<To>>::is_float) {
    return float_to_integer<To>(x);
  } else {
    return widen(narrow<To>(x));
  }
}

#ifdef FAST_MATH
// Where results have 16 bits, a few units in the last place of f32 are nothing.
__device__ __forceinline__ f32 op_sigmoid(f32 x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ __forceinline__ f32 op_silu(f32 x) { return x * op_sigmoid(x); }
__device__ __forceinline__ f32 op_gelu_tanh(f32 x) {
  // 0.5 (1 + tanh(y)) is sigmoid(2 y).
  return x * op_sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
}
#endif
