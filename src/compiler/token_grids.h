// Tokens that are places of a grid: rows of an image, frames of a video.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tutti {

// Tokens in rows: `tokens` of them are `rows` equal runs, as a Reshape to a grid says.
struct TokenRows {
  Dim tokens;
  Dim rows;
};

// The ways to cut tokens by whole rows of their grids, coarse ones first: one row of the outermost
// dimension, of the two outermost, and so on. None where no convolution reaches across the grid's
// places behind other work: it is for those that rows are kept whole.
std::vector<std::vector<TokenRows>> token_grids(const Graph& graph);

}  // namespace tutti
