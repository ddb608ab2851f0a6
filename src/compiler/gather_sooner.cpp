// Keys and values of many attentions that are made of one short sequence, each from its pieces,
// would each be gathered. Where that is cheaper, the sequence is, once.
#include <algorithm>

#include "compiler/cost.h"
#include "compiler/strategy.h"
#include "compiler/value_layouts.h"

namespace tutti {
namespace {

class SoonerGather {
 public:
  SoonerGather(const Graph& graph, const CompileOptions& options, const FactorMaps& maps,
               Sharding* sharding)
      : graph_(graph),
        options_(options),
        layouts_(maps, *sharding),
        size_(typical_sizes(graph, options)),
        sharding_(sharding) {
    for (const auto& node : graph.nodes()) order_.emplace(node.get(), order_.size());
  }

  void run() {
    // The last values first: least is done on all ranks then.
    for (auto it = graph_.nodes().rbegin(); it != graph_.nodes().rend(); ++it) {
      for (const Value* output : (*it)->outputs()) try_at(*output);
    }
  }

 private:
  using Region = std::vector<const Node*>;  // in the order of the graph

  void try_at(const Value& value) {
    if (!layouts_.is_in_pieces(value) || value.users().size() < 2) return;
    const Region region = region_behind(value);
    if (region.empty() || !is_worth_it(value, region)) return;
    for (const Node* node : region) sharding_->nodes.erase(node);
  }

  // Work on pieces of what is made of `value` alone.
  bool continues(const Node& node, const std::set<const Value*>& inside) const {
    if (!layouts_.works_on_pieces(node)) return false;
    if (node.op().is_exchange || node.type() == "Attention") return false;
    return std::all_of(node.inputs().begin(), node.inputs().end(), [&](const Value* input) {
      return input == nullptr || inside.contains(input) || layouts_.made(*input).is_replicated();
    });
  }

  // Nodes that would work on the whole of `value` for the sake of those who need it whole.
  Region region_behind(const Value& value) const {
    constexpr std::size_t kMaxNodes = 256;
    const auto earlier = [this](const Node* a, const Node* b) {
      return order_.at(a) < order_.at(b);
    };
    std::set<const Node*, decltype(earlier)> waiting(value.users().begin(), value.users().end(),
                                                     earlier);
    std::set<const Value*> inside = {&value};
    Region region;
    while (!waiting.empty() && region.size() < kMaxNodes) {
      const Node* node = *waiting.begin();
      waiting.erase(waiting.begin());
      if (!continues(*node, inside)) continue;
      region.push_back(node);
      for (const Value* output : node->outputs()) {
        inside.insert(output);
        waiting.insert(output->users().begin(), output->users().end());
      }
    }
    std::set<const Node*> kept;
    for (auto it = region.rbegin(); it != region.rend(); ++it) {
      if (ends_whole(**it, kept)) kept.insert(*it);
    }
    std::erase_if(region, [&](const Node* node) { return !kept.contains(node); });
    return region;
  }

  bool ends_whole(const Node& node, const std::set<const Node*>& kept) const {
    const auto& outputs = graph_.outputs();
    return std::all_of(node.outputs().begin(), node.outputs().end(), [&](const Value* output) {
      if (std::find(outputs.begin(), outputs.end(), output) != outputs.end()) return false;
      return std::all_of(output->users().begin(), output->users().end(), [&](const Node* user) {
        return kept.contains(user) || layouts_.is_read_whole(*user, *output);
      });
    });
  }

  double gathered_bytes(const Value& value) const {
    const double bytes =
        size_(product(value.shape())) * static_cast<double>(dtype_size(value.dtype()));
    const double ranks = options_.mesh.size(sharding_->axis);
    return bytes * (ranks - 1) / ranks;  // that a rank sends
  }

  bool is_worth_it(const Value& value, const Region& region) const {
    const std::set<const Node*> inside(region.begin(), region.end());
    std::set<const Node*> readers;  // each gets its operands in one transfer
    double bytes = 0;
    double flops = 0;
    for (const Node* node : region) {
      flops += size_(node_flops(*node));
      for (const Value* output : node->outputs()) {
        for (const Node* user : output->users()) {
          if (inside.contains(user)) continue;
          // Gathers for others stand together more often, and then are one.
          if (user->type() != "Attention") return false;
          readers.insert(user);
        }
        const bool is_gathered =
            std::any_of(output->users().begin(), output->users().end(),
                        [&](const Node* user) { return !inside.contains(user); });
        if (is_gathered) bytes += gathered_bytes(*output);
      }
    }
    // Those who wait for something else that is gathered wait anyway.
    std::erase_if(readers, [&](const Node* reader) {
      return std::any_of(reader->inputs().begin(), reader->inputs().end(), [&](const Value* input) {
        return input != nullptr && !inside.contains(input->producer()) &&
               layouts_.is_in_pieces(*input) && layouts_.is_read_whole(*reader, *input);
      });
    });
    if (readers.size() < 2) return false;
    const CostRates& rates = options_.rates;
    const double ranks = options_.mesh.size(sharding_->axis);
    const double saved = static_cast<double>(readers.size() - 1) * rates.seconds_per_exchange +
                         (bytes - gathered_bytes(value)) / rates.bytes_per_second;
    return flops * (ranks - 1) / ranks / rates.flops_per_second < saved;
  }

  const Graph& graph_;
  const CompileOptions& options_;
  const ValueLayouts layouts_;
  SizeEstimate size_;
  Sharding* sharding_;
  std::map<const Node*, std::size_t> order_;
};

}  // namespace

void gather_sooner(const Graph& graph, const CompileOptions& options, const FactorMaps& maps,
                   Sharding* sharding) {
  SoonerGather(graph, options, maps, sharding).run();
}

}  // namespace tutti
