#include "runtime/storage.h"

#include <algorithm>
#include <set>

#include "graph/rank_constant.h"
#include "plan/memory_plan.h"

namespace tutti {
namespace {

// Collects slots and, for those in the arena, when they are needed. Time 0 is before the first
// node, node i runs at time i + 1 (joined nodes all at one time), and outputs are read at the
// time after the last node.
class StoragePlanner {
 public:
  StoragePlanner(const Graph& graph, std::unordered_map<const Value*, TensorDesc> descriptions,
                 const StorageOptions& options)
      : graph_(graph), options_(options), end_(static_cast<int>(graph.nodes().size()) + 1) {
    map_.desc_of = std::move(descriptions);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      times_.push_back(static_cast<int>(i) + 1);
    }
    for (const StorageOptions::Joined& joined : options_.joined) {
      const int time = static_cast<int>(joined.at) + 1;
      for (const std::size_t position : joined.positions) times_[position] = time;
    }
    auto time = times_.begin();
    for (const auto& node : graph_.nodes()) time_of_.emplace(node.get(), *time++);
  }

  StorageMap plan(const std::vector<std::size_t>& workspaces) {
    add_inputs();
    for (const Value* constant : graph_.constants()) add_constant(constant);
    add_nodes();
    add_outputs();
    place(workspaces);
    return std::move(map_);
  }

 private:
  void add_slot(const Value* value, StorageSlot slot, int time) {
    slot.bytes = map_.desc_of.at(value).byte_size();
    map_.slot_of[value] = static_cast<int>(map_.slots.size());
    map_.slots.push_back(slot);
    lifetimes_.push_back({slot.bytes, time, time});
  }

  void add_constant(const Value* value) {
    StorageSlot slot;
    slot.kind = StorageSlot::Kind::kConstant;
    slot.constant = value;
    add_slot(value, slot, 0);
  }

  void add_inputs() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      StorageSlot slot;
      slot.index = static_cast<int>(i);
      slot.kind =
          options_.input_in_place[i] ? StorageSlot::Kind::kInput : StorageSlot::Kind::kArena;
      add_slot(graph_.inputs()[i], slot, 0);
      if (i < options_.input_is_cut.size() && options_.input_is_cut[i]) {
        map_.slots.back().bytes = lifetimes_.back().bytes = 0;
      }
    }
  }

  void add_nodes() {
    for (const auto& node : graph_.nodes()) {
      const int time = time_of_.at(node.get());
      if (node->op().is_view) {
        map_.slot_of[node->output()] = map_.slot_of.at(node->input(0));
      } else if (cuts_constant(*node)) {
        add_constant(node->output());
      } else {
        const int since = cuts_input(*node, graph_, options_) ? 0 : time;
        for (const Value* output : node->outputs()) {
          add_slot(output, {}, since);
          if (is_hidden(*output)) map_.slots.back().bytes = lifetimes_.back().bytes = 0;
        }
      }
      for (const Value* input : node->inputs()) {
        if (input != nullptr) use(input, time);
      }
    }
  }

  // Whether only nodes read it that are joined with the one that writes it.
  bool is_hidden(const Value& value) const {
    const int time = time_of_.at(value.producer());
    const auto& outputs = graph_.outputs();
    return !value.users().empty() &&
           std::find(outputs.begin(), outputs.end(), &value) == outputs.end() &&
           std::all_of(value.users().begin(), value.users().end(),
                       [&](const Node* user) { return time_of_.at(user) == time; });
  }

  void use(const Value* value, int time) {
    BufferLifetime& lifetime = lifetimes_[static_cast<std::size_t>(map_.slot_of.at(value))];
    lifetime.last = std::max(lifetime.last, time);
  }

  void add_outputs() {
    if (!options_.needs_outputs) return;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Value* value = graph_.outputs()[i];
      const int index = map_.slot_of.at(value);
      StorageSlot& slot = map_.slots[static_cast<std::size_t>(index)];
      if (options_.outputs_in_place && slot.kind == StorageSlot::Kind::kArena &&
          !is_input_slot(index)) {
        slot.kind = StorageSlot::Kind::kOutput;
        slot.index = static_cast<int>(i);
        continue;
      }
      // An input, a constant, or a value that is an output already.
      use(value, end_);
      map_.copies.push_back({index, static_cast<int>(i), slot.bytes});
    }
  }

  bool is_input_slot(int slot) const {
    return std::any_of(graph_.inputs().begin(), graph_.inputs().end(),
                       [&](const Value* input) { return map_.slot_of.at(input) == slot; });
  }

  void place(const std::vector<std::size_t>& workspaces) {
    std::vector<BufferLifetime> buffers;
    std::vector<std::size_t*> offsets;
    for (std::size_t i = 0; i < map_.slots.size(); ++i) {
      if (map_.slots[i].kind != StorageSlot::Kind::kArena) continue;
      buffers.push_back(lifetimes_[i]);
      offsets.push_back(&map_.slots[i].offset);
    }
    map_.workspace_offsets.assign(workspaces.size(), 0);
    for (std::size_t i = 0; i < workspaces.size(); ++i) {
      if (workspaces[i] == 0) continue;
      buffers.push_back({workspaces[i], times_[i], times_[i]});
      offsets.push_back(&map_.workspace_offsets[i]);
    }
    const MemoryPlan memory = plan_memory(buffers);
    for (std::size_t i = 0; i < offsets.size(); ++i) *offsets[i] = memory.offsets[i];
    map_.arena_bytes = memory.bytes;
  }

  const Graph& graph_;
  const StorageOptions& options_;
  const int end_;
  std::vector<int> times_;  // by node position
  std::unordered_map<const Node*, int> time_of_;
  StorageMap map_;
  std::vector<BufferLifetime> lifetimes_;  // by slot
};

void collect_symbols(const Graph& graph, std::vector<std::string>* names) {
  const auto collect = [&](const Shape& shape) {
    for (const Dim& dim : shape) dim.collect_symbols(names);
  };
  for (const Value* value : graph.values()) collect(value->shape());
  for (const auto& node : graph.nodes()) {
    for (const auto& [name, attribute] : node->attributes()) {
      if (const auto* shape = std::get_if<Shape>(&attribute)) collect(*shape);
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute)) {
        collect_symbols(**body, names);
      }
    }
  }
}

}  // namespace

Result<std::unordered_map<const Value*, TensorDesc>> describe_values(const Graph& graph,
                                                                     const SymbolMap& symbols) {
  std::unordered_map<const Value*, TensorDesc> descriptions;
  for (const Value* value : graph.values()) {
    Result<Dims> dims = evaluate(value->shape(), symbols);
    if (dims.ok()) {
      if (const auto bytes = checked_byte_size(value->dtype(), *dims); !bytes.ok()) {
        dims = bytes.status();
      }
    }
    if (!dims.ok()) return dims.status().with_context(str_cat("value '", value->name(), "'"));
    descriptions[value] = {value->dtype(), *std::move(dims)};
  }
  // A view shares its input's memory, so it must be as large. The compiler takes [h] -> [h//2, 2]
  // on trust; whether h is even shows here.
  for (const auto& node : graph.nodes()) {
    if (!node->op().is_view) continue;
    const Dims& from = descriptions[node->input(0)].dims;
    const Dims& to = descriptions[node->output()].dims;
    if (element_count(from) != element_count(to)) {
      return invalid_argument(node->describe(), ": shape ", from, " has ", element_count(from),
                              " elements and does not fit ", to);
    }
  }
  return descriptions;
}

bool cuts_input(const Node& node, const Graph& graph, const StorageOptions& options) {
  if (node.type() != "ShardSlice") return false;
  for (std::size_t i = 0; i < options.input_is_cut.size(); ++i) {
    if (options.input_is_cut[i] && graph.inputs()[i] == node.input(0)) return true;
  }
  return false;
}

StorageMap plan_storage(const Graph& graph,
                        std::unordered_map<const Value*, TensorDesc> descriptions,
                        const std::vector<std::size_t>& workspaces, const StorageOptions& options) {
  return StoragePlanner(graph, std::move(descriptions), options).plan(workspaces);
}

std::vector<std::string> size_symbols(const Graph& graph) {
  std::vector<std::string> names;
  collect_symbols(graph, &names);
  const std::set<std::string> sorted(names.begin(), names.end());
  names.clear();
  for (const std::string& name : sorted) {
    if (!name.starts_with("rank.")) names.push_back(name);
  }
  return names;
}

}  // namespace tutti
