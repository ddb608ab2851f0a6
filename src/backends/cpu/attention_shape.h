// One attention as numbers: sizes, strides in elements, options. See attention_kernel.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace tutti::cpu {

struct AttentionStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t token = 0;  // elements of one token lie side by side
};

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t kv_heads = 0;
  std::int64_t group = 0;  // query heads that share a key/value head; head h uses h / group
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t d = 0;  // elements of a query or key of one head
  std::int64_t e = 0;  // of a value
  AttentionStrides q, k, v, out;

  DType mask_dtype = DType::kUndefined;  // none
  std::int64_t mask_strides[4] = {};     // batch, head, query, key; 0 where it broadcasts

  float scale = 1;
  float softcap = 0;  // 0: none
  bool is_causal = false;
  std::int64_t causal_offset = 0;
};

struct AttentionData {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* mask = nullptr;
  const std::int64_t* key_lengths = nullptr;  // by batch; null: all keys
  void* out = nullptr;

  // Keys may come in pieces, in any order: running maxima, sums and outputs of all query tiles stay
  // here from one call to the next. Null: these are all keys.
  float* state = nullptr;
  bool resumes = false;  // not the first piece
  bool finishes = true;  // the last piece
};

}  // namespace tutti::cpu
