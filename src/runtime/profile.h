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

}  // namespace tutti
