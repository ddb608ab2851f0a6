// The pieces of a decomposed attention.
#pragma once

#include "graph/builder.h"

namespace tutti {

// softmax's operand = s + mask, or where(mask, s, -large); s = scale * q k^T, or softcap * tanh(s /
// softcap) of it.
struct ScoresMatch {
  Value* q = nullptr;
  Value* k = nullptr;  // [.., t, d], or [.., d, t] when k_is_transposed
  bool k_is_transposed = false;
  double scale = 1;
  double softcap = 0;             // 0: none
  Value* mask = nullptr;          // additive float, or bool
  bool mask_is_inverted = false;  // bool with true = do not attend
};
std::optional<ScoresMatch> match_scores(Value* scores);

// [b, g, t, d] with each head repeated r times in a row: [b, (g r), t, d]. `source` is the value
// before the repeat, seen through a head transpose where there is one.
struct HeadRepeat {
  Value* source = nullptr;
  Shape grouped_shape;                  // of the source without the repeated dimension
  std::vector<std::int64_t> transpose;  // to apply afterwards; empty: none
  Dim repeats;
};
// `heads`: index of the head dimension of a value of rank 4.
std::optional<HeadRepeat> match_head_repeat(Value* value, int heads);
Value* build_without_repeat(GraphBuilder& b, const HeadRepeat& repeat);

}  // namespace tutti
