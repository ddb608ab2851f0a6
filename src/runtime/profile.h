// Where a rank's time goes, by operator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

struct OpTime {
  std::string op;  // "Linear", "AllToAll"
  std::int64_t calls = 0;
  double seconds = 0;  // wall time, waiting for other ranks included
};

using RankProfile = std::vector<OpTime>;

// One node in one run. Besides nodes there are "(inputs)" and "(outputs)".
struct StepTime {
  std::string op;
  std::string name;  // for people
  double start = 0;  // seconds of std::chrono::steady_clock, as well as the device's clock fits it
  double seconds = 0;
};

using RankTimeline = std::vector<StepTime>;

}  // namespace tutti
