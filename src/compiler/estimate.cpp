#include "compiler/estimate.h"

#include <algorithm>

#include "compiler/cost.h"
#include "graph/op_def.h"

namespace tutti {

TimeEstimate estimate_time(const Graph& main, const std::vector<RankBytes>& memory,
                           const Mesh& mesh, const CostRates& rates, const SymbolMap& sizes) {
  TimeEstimate time;
  std::vector<Dim> flops;
  std::vector<Dim> sent;
  for (const auto& node : main.nodes()) {
    if (node->op().is_exchange) sent.push_back(exchange_sent_bytes(*node));
    flops.push_back(node_flops(*node));
  }
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    SymbolMap symbols = sizes;
    mesh.bind(rank, &symbols);
    const SizeEstimate size(std::move(symbols));
    const auto sum = [&](const std::vector<Dim>& dims) {
      double total = 0;
      for (const Dim& dim : dims) total += size(dim);
      return total;
    };
    time.compute = std::max(time.compute, sum(flops) / rates.flops_per_second);
    time.link = std::max(time.link, sum(sent) / rates.bytes_per_second);
    const double weights = memory[static_cast<std::size_t>(rank)].weights;
    time.weights = std::max(time.weights, weights / rates.memory_bytes_per_second);
  }
  time.exchanges = static_cast<int>(sent.size());
  time.latency = time.exchanges * rates.seconds_per_exchange;
  return time;
}

}  // namespace tutti
