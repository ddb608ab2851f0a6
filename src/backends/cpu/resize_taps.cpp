#include "backends/cpu/resize_taps.h"

#include <algorithm>
#include <cmath>

namespace tutti::cpu {
namespace {

// The place in the input that output position x samples, as ONNX's Resize defines it.
double source_position(const std::string& mode, double x, std::int64_t in, std::int64_t out,
                       double scale) {
  const double length = scale * static_cast<double>(in);  // of the output, before rounding
  if (mode == "align_corners")
    return length == 1 ? 0 : x * static_cast<double>(in - 1) / (length - 1);
  if (mode == "asymmetric") return x / scale;
  if (mode == "pytorch_half_pixel" && length == 1) return -0.5;
  const double half_pixel = (x + 0.5) / scale - 0.5;
  if (mode == "half_pixel_symmetric") {
    return half_pixel + static_cast<double>(in) / 2 * (1 - static_cast<double>(out) / length);
  }
  return half_pixel;
}

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

}  // namespace

void ResizeTaps::drop_front(std::int64_t rows) {
  index.erase(index.begin(), index.begin() + rows * count);
  weight.erase(weight.begin(), weight.begin() + rows * count);
}

ResizeTaps make_resize_taps(const ResizeOptions& o, std::int64_t in, std::int64_t out,
                            double scale) {
  ResizeTaps taps;
  // A filter wider than the usual two or four positions averages what shrinking would skip.
  const double filter_scale = o.antialiases ? std::min(scale, 1.0) : 1.0;
  const double radius = (o.mode == "cubic" ? 2.0 : 1.0) / filter_scale;
  const auto first = o.mode == "nearest" ? 0 : static_cast<std::int64_t>(std::floor(-radius)) + 1;
  taps.count = o.mode == "nearest" ? 1 : 2 - 2 * first;
  for (std::int64_t x = 0; x < out; ++x) {
    const double position =
        source_position(o.transformation, static_cast<double>(x), in, out, scale);
    // ratio is in (0, 1]: of two equally near positions the left one counts.
    const double left = std::ceil(position) - 1;
    const double ratio = position - left;
    const auto base = static_cast<std::int64_t>(left);
    if (o.mode == "nearest") {
      bool is_right = ratio == 1;
      if (o.nearest_mode == "round_prefer_floor") is_right = ratio > 0.5;
      if (o.nearest_mode == "round_prefer_ceil") is_right = ratio >= 0.5;
      if (o.nearest_mode == "ceil") is_right = true;
      taps.index.push_back(static_cast<std::int32_t>(
          std::clamp<std::int64_t>(base + (is_right ? 1 : 0), 0, in - 1)));
      taps.weight.push_back(1);
      continue;
    }
    double sum = 0;
    for (std::int64_t i = first; i < first + taps.count; ++i) {
      const double distance = (static_cast<double>(i) - ratio) * filter_scale;
      double weight = o.mode == "cubic" ? cubic(distance, o.cubic_coefficient)
                                        : std::max(0.0, 1 - std::abs(distance));
      if (o.excludes_outside && (base + i < 0 || base + i >= in)) weight = 0;
      taps.index.push_back(
          static_cast<std::int32_t>(std::clamp<std::int64_t>(base + i, 0, in - 1)));
      taps.weight.push_back(weight);
      sum += weight;
    }
    if (o.excludes_outside || o.antialiases) {
      for (std::int64_t i = 0; i < taps.count; ++i)
        taps.weight[taps.weight.size() - 1 - static_cast<std::size_t>(i)] /= sum;
    }
  }
  return taps;
}

}  // namespace tutti::cpu
