// What a tensor's type may be, wherever it comes from: a model's file, inference, a plan. Keeps the
// arithmetic of sizes far from overflow and formulas short enough to be written and read back.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace tutti {

// A tensor of one dimension cannot be larger.
inline constexpr std::int64_t kMaxDimSize = std::int64_t{1} << 40;
inline constexpr int kMaxRank = 32;

// INVALID_ARGUMENT: more than kMaxRank dimensions, a constant size outside [0, kMaxDimSize],
// constant sizes that multiply to more than 2^63 - 1 bytes (zeros left aside), a formula that
// parse_dim() would refuse as too long or too deep.
Status check_limits(const TensorType& type);
// The inferred types of a node's outputs, when all are within the limits; else the error says which
// output is not.
Result<std::vector<TensorType>> within_limits(std::vector<TensorType> outputs);

}  // namespace tutti
