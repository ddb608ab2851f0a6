// Vectorised conversions between float and the 16-bit floats (round to nearest, ties to even).
// Source and target do not overlap.
#pragma once

#include <cstdint>

#include "base/half.h"

namespace tutti::cpu {

void convert_to_float(const Half* source, float* target, std::int64_t count);
void convert_to_float(const BFloat16* source, float* target, std::int64_t count);
void convert_from_float(const float* source, Half* target, std::int64_t count);
void convert_from_float(const float* source, BFloat16* target, std::int64_t count);

}  // namespace tutti::cpu
