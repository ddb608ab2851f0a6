// A transformer of two towers as text: text and video tokens packed into one sequence by index,
// each with projections of its own; text attends to text, causally, video to text and video. The
// index inputs are bound, as `tutti compile --bind` does.
#pragma once

#include <string>

namespace tutti {

struct TwoTowers {
  int layers = 2;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 4;
  int words = 5;
  int patches = 11;

  std::string text() const;
};

}  // namespace tutti
