// Attention for AVX2.

// GCC 12's vectoriser of straight-line code would take the register tiles apart.
#pragma GCC optimize("no-tree-slp-vectorize")

#define TUTTI_LEVEL avx2
#define TUTTI_LEVEL_WIDTH 8
#define TUTTI_LEVEL_TARGET __attribute__((target("avx2,fma,f16c")))
#include "backends/cpu/attention_tile.h"
