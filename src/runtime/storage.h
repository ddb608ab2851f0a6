// Where every value of a graph lives while it runs at given sizes.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "graph/op_def.h"

namespace tutti {

// One address. Values that are views of each other share one.
struct StorageSlot {
  enum class Kind { kArena, kConstant, kInput, kOutput };
  Kind kind = Kind::kArena;
  std::size_t bytes = 0;
  std::size_t offset = 0;           // kArena
  const Value* constant = nullptr;  // kConstant: that one, or the piece of one
  int index = 0;                    // kInput, kOutput: which one of the graph
};

// Fills an output from another slot after the last node.
struct OutputCopy {
  int slot = 0;
  int output = 0;
  std::size_t bytes = 0;
};

struct StorageOptions {
  // By graph input: its address is given to run(); otherwise it gets room in the arena.
  std::vector<bool> input_in_place;
  // By graph input: only pieces of it are wanted, so that it has no memory; its ShardSlice nodes
  // are filled before the first node. Empty: none.
  std::vector<bool> input_is_cut = {};
  bool needs_outputs = true;     // false: this rank's outputs are nobody's concern
  bool outputs_in_place = true;  // nodes may write straight into the memory given for outputs
  // Nodes by position that run as one, where `at`, one of them, stands: what only they read has no
  // memory, all else that they touch keeps it until then. Their workspace is that of `at`.
  struct Joined {
    std::size_t at = 0;
    std::vector<std::size_t> positions;
  };
  std::vector<Joined> joined = {};
};

struct StorageMap {
  std::vector<StorageSlot> slots;
  std::unordered_map<const Value*, int> slot_of;
  std::unordered_map<const Value*, TensorDesc> desc_of;
  std::vector<OutputCopy> copies;
  std::vector<std::size_t> workspace_offsets;  // by node position, views included
  std::size_t arena_bytes = 0;
};

// Sizes of every value under `symbols` (rank coordinates included).
Result<std::unordered_map<const Value*, TensorDesc>> describe_values(const Graph& graph,
                                                                     const SymbolMap& symbols);

// `node` cuts an input of which only pieces are wanted.
bool cuts_input(const Node& node, const Graph& graph, const StorageOptions& options);

// `workspaces`: bytes by node position.
StorageMap plan_storage(const Graph& graph,
                        std::unordered_map<const Value*, TensorDesc> descriptions,
                        const std::vector<std::size_t>& workspaces, const StorageOptions& options);

// Names of the size symbols (not rank coordinates) that shapes and attributes of the graph use.
std::vector<std::string> size_symbols(const Graph& graph);

}  // namespace tutti
