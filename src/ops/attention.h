// What the files of the attention family share.
#pragma once

#include "ops/lowering.h"

namespace tutti {

// Which dimension of q, k, v and the output holds what, by the attribute `layout`.
struct AttentionAxes {
  std::size_t heads = 1;
  std::size_t tokens = 2;
};
inline AttentionAxes attention_axes(std::string_view layout) {
  return layout == "bshd" ? AttentionAxes{2, 1} : AttentionAxes{1, 2};
}

void register_attention_lowerings(LoweringRegistry* lowerings);
void register_rotary_lowering(LoweringRegistry* lowerings);

}  // namespace tutti
