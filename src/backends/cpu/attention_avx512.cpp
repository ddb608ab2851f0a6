// Attention for AVX-512.
#include "backends/cpu/simd.h"

// GCC 12's vectoriser of straight-line code would take the register tiles apart.
#pragma GCC optimize("no-tree-slp-vectorize")

#define TUTTI_LEVEL avx512
#define TUTTI_LEVEL_WIDTH 16
#define TUTTI_LEVEL_TARGET __attribute__((target(TUTTI_TARGET_AVX512)))
#include "backends/cpu/attention_tile.h"
