// Where a rank's time goes, by operator.
#pragma once

#include <chrono>
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

// One rank in one run of its group.
struct RankRun {
  std::chrono::steady_clock::time_point started;
  std::chrono::steady_clock::time_point finished;  // the epoch: it has not come back
  std::chrono::nanoseconds exchange{0};            // of it in exchanges, as RankUse::exchange
};

// What a rank has done since its group was made or rebuilt.
struct RankUse {
  std::chrono::nanoseconds run{0};  // in runs, their waiting for other ranks included
  // Of it in exchanges. 0 on devices with a queue of their own, where only a profile can tell.
  std::chrono::nanoseconds exchange{0};
  std::int64_t sent_bytes = 0;  // to other ranks
};

}  // namespace tutti
