// A small diffusion transformer as text: self-attention with grouped heads over [frames, height,
// width] tokens, cross-attention to text, gated MLP, time modulation. No operator is a distributed
// one.
#pragma once

#include <string>

namespace tutti {

struct ToyTransformer {
  int layers = 2;
  int heads = 8;
  int kv_heads = 4;
  int head_dim = 4;
  bool has_text = true;
  std::string tokens = "frames, height, width";  // dimensions of the latents after channels
  std::string batch = "batch";

  std::string text() const;
};

}  // namespace tutti
