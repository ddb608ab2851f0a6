// Which input positions each output position of a Resize reads along one axis, and their weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::cpu {

struct ResizeOptions {
  std::string mode;            // nearest linear cubic
  std::string transformation;  // ONNX's coordinate_transformation_mode
  std::string nearest_mode;
  double cubic_coefficient = -0.75;
  bool excludes_outside = false;
  bool antialiases = false;
};

struct ResizeTaps {
  std::int64_t count = 0;           // for each output position
  std::vector<std::int32_t> index;  // [out][count], within the input
  std::vector<double> weight;       // [out][count]

  void drop_front(std::int64_t rows);
};

// `scale` is the one given or out / in, which it need not be for a piece of a Resize. in and out
// are at least 1.
ResizeTaps make_resize_taps(const ResizeOptions& options, std::int64_t in, std::int64_t out,
                            double scale);

}  // namespace tutti::cpu
