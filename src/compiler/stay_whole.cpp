// What every rank has whole may be cut for one user's sake, worked on in pieces, and be needed
// whole by another (of keys that stand on several ranks, the sum of squares). Light work on the
// whole costs less than gathering what came of it.
#include <algorithm>
#include <optional>

#include "compiler/cost.h"
#include "compiler/match.h"
#include "compiler/strategy.h"
#include "compiler/value_layouts.h"

namespace tutti {
namespace {

class WholeKeeper {
 public:
  WholeKeeper(const Graph& graph, const CompileOptions& options, const FactorMaps& maps,
              Sharding* sharding)
      : graph_(graph),
        options_(options),
        layouts_(maps, *sharding),
        size_(typical_sizes(graph, options)),
        sharding_(sharding) {}

  void run() {
    for (auto it = graph_.nodes().rbegin(); it != graph_.nodes().rend(); ++it) {
      for (const Value* output : (*it)->outputs()) try_at(**it, *output);
    }
  }

 private:
  using Region = std::set<const Node*>;

  void try_at(const Node& node, const Value& value) {
    if (!layouts_.is_in_pieces(value) || !is_needed_whole(value)) return;
    Region region;
    if (!add_before(node, &region) || !is_worth_it(value, region)) return;
    for (const Node* one : region) sharding_->nodes.erase(one);
  }

  bool is_needed_whole(const Value& value) const {
    return std::any_of(value.users().begin(), value.users().end(),
                       [&](const Node* user) { return layouts_.is_read_whole(*user, value); });
  }

  static bool is_light(const Node& node) {
    return node.op().is_pointwise || node.op().is_view || node.type() == "Transpose" ||
           node.type() == "Slice" || node.type() == "Split";
  }

  // The work between values that are whole and this node; false: something else stands there.
  bool add_before(const Node& node, Region* region) const {
    constexpr std::size_t kMaxNodes = 32;
    if (region->contains(&node)) return true;
    if (!is_light(node) || !layouts_.works_on_pieces(node) || region->size() == kMaxNodes) {
      return false;
    }
    region->insert(&node);
    return std::all_of(node.inputs().begin(), node.inputs().end(), [&](const Value* input) {
      return input == nullptr || layouts_.made(*input).is_replicated() ||
             add_before(*input->producer(), region);
    });
  }

  bool is_worth_it(const Value& value, const Region& region) const {
    const CostRates& rates = options_.rates;
    const double ranks = options_.mesh.size(sharding_->axis);
    const double others = (ranks - 1) / ranks;
    double flops = 0;
    for (const Node* node : region) flops += size_(node_flops(*node));
    const double bytes =
        size_(product(value.shape())) * static_cast<double>(dtype_size(value.dtype()));
    return flops * others / rates.flops_per_second <
           rates.seconds_per_exchange + bytes * others / rates.bytes_per_second;
  }

  const Graph& graph_;
  const CompileOptions& options_;
  const ValueLayouts layouts_;
  SizeEstimate size_;
  Sharding* sharding_;
};

}  // namespace

void stay_whole(const Graph& graph, const CompileOptions& options, const FactorMaps& maps,
                Sharding* sharding) {
  WholeKeeper(graph, options, maps, sharding).run();
}

}  // namespace tutti
