#include "server/servable_model.h"

#include <algorithm>

namespace tutti::server {

std::optional<double> rank_imbalance(const InstanceStatistics& instance) {
  if (instance.ranks.size() < 2) return std::nullopt;
  double sum = 0;
  double largest = 0;
  for (const RankStatistics& rank : instance.ranks) {
    if (rank.exchange.count() == 0) return std::nullopt;
    const auto busy = static_cast<double>((rank.run - rank.exchange).count());
    sum += busy;
    largest = std::max(largest, busy);
  }
  if (largest <= 0) return std::nullopt;
  return 1 - sum / static_cast<double>(instance.ranks.size()) / largest;
}

}  // namespace tutti::server
