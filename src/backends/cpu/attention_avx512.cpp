// Attention for AVX-512.

// GCC 12's vectoriser of straight-line code would take the register tiles apart.
#pragma GCC optimize("no-tree-slp-vectorize")

#define TUTTI_LEVEL avx512
#define TUTTI_LEVEL_WIDTH 16
#define TUTTI_LEVEL_TARGET \
  __attribute__((          \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")))
#include "backends/cpu/attention_tile.h"
