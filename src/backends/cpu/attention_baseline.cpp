// Attention for any x86-64.

// GCC 12's vectoriser of straight-line code would take the register tiles apart.
#pragma GCC optimize("no-tree-slp-vectorize")

#define TUTTI_LEVEL baseline
#define TUTTI_LEVEL_WIDTH 4
#define TUTTI_LEVEL_TARGET
#include "backends/cpu/attention_tile.h"
