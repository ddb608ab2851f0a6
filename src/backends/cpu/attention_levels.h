// The attention loops as functions, one set an element type, for the best vectors of this machine.
#pragma once

#include <cstddef>

#include "backends/cpu/attention_shape.h"
#include "base/status.h"

namespace tutti::cpu::attention {

struct Functions {
  // Floats that packed keys and values take, and scratch floats of one worker.
  std::int64_t (*packed_key_floats)(const AttentionShape& s);
  std::int64_t (*packed_value_floats)(const AttentionShape& s);
  std::int64_t (*scratch_floats)(const AttentionShape& s);
  // What AttentionData::state holds for one query tile.
  std::int64_t (*state_floats)(const AttentionShape& s);
  // Loops to run over [0, count): panels to pack, then query tiles.
  std::int64_t (*panel_count)(const AttentionShape& s);
  std::int64_t (*tile_count)(const AttentionShape& s);
  void (*pack_keys)(const AttentionShape& s, const void* k, std::int64_t begin, std::int64_t end,
                    float* packed);
  // Values of tokens [begin, end), counted over batch, heads and keys.
  void (*pack_values)(const AttentionShape& s, const void* v, std::int64_t begin, std::int64_t end,
                      float* packed);
  void (*attend)(const AttentionShape& s, const AttentionData& data, const float* keys,
                 const float* values, std::int64_t begin, std::int64_t end, float* scratch);
};

// The best level of this machine, for f32, f16 and bf16; an error for others.
Result<const Functions*> functions_for(DType dtype);

// One level each, null for other element types; callers have checked the machine.
namespace avx512 {
const Functions* functions(DType dtype);
}
namespace avx2 {
const Functions* functions(DType dtype);
}
namespace baseline {
const Functions* functions(DType dtype);
}

}  // namespace tutti::cpu::attention
