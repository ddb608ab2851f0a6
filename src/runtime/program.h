// One graph at fixed sizes on one rank, ready to run any number of times.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/backend.h"
#include "runtime/hooks.h"
#include "runtime/joined_nodes.h"
#include "runtime/profile.h"
#include "runtime/rank_constants.h"
#include "runtime/storage.h"
#include "runtime/takes.h"

namespace tutti {

// How far a rank has come, for whoever waits for it. Written by the rank's thread.
struct RankProgress {
  std::atomic<const Node*> node{nullptr};  // the one that runs now; null between runs
  std::atomic<bool> in_exchange{false};    // inside a collective, perhaps waiting for others
  // In collectives since the start, waiting included; 0 where kernels run after they return.
  std::atomic<std::int64_t> exchange_ns{0};
};

// Everything around one run of a program.
struct ProgramRun {
  std::byte* arena = nullptr;               // arena_bytes() bytes
  std::span<const void* const> inputs;      // by graph input; host memory unless in place
  std::span<void* const> outputs;           // by graph output; host memory unless in place
  const std::atomic<bool>* stop = nullptr;  // polled before every node
  RankProgress* progress = nullptr;
  Communicator* group = nullptr;     // all ranks; null for one
  RankProfile* profile = nullptr;    // null: not asked for; the rows that create() was given
  RankTimeline* timeline = nullptr;  // with a profile: what ran when
};

class Program {
 public:
  // `symbols` bind sizes and rank coordinates. Operators without a row in
  // `op_rows` get one.
  // The graph, the device and the constants outlive the program. Errors name the node.
  static Result<std::unique_ptr<Program>> create(const Graph& graph, SymbolMap symbols, int rank,
                                                 RankDevice& device, RankConstants* constants,
                                                 const StorageOptions& storage,
                                                 RankProfile* op_rows);

  std::size_t arena_bytes() const { return map_.arena_bytes; }
  const TensorDesc& output_desc(std::size_t i) const {
    return map_.desc_of.at(graph_.outputs()[i]);
  }

  // Allocates nothing. Errors: CANCELLED when `stop` became true; a kernel's or a hook's own, with
  // the node in front. One thread at a time.
  Status run(const ProgramRun& run, RankHooks* hooks);

 private:
  struct Step {
    const Node* node = nullptr;  // of the graph, or of joined ones
    std::vector<const Value*> inputs;
    std::vector<const Value*> outputs;
    std::unique_ptr<Kernel> kernel;
    std::size_t first_operand = 0;  // into operands_: inputs, then outputs
    std::size_t num_inputs = 0;
    std::size_t num_outputs = 0;
    std::size_t position = 0;  // of the node in the graph
    bool has_workspace = false;
    bool is_exchange = false;
    std::size_t op_row = 0;  // in profiles
  };
  // Steps [first, last) without an exchange among them, or one exchange.
  struct Stretch {
    std::size_t first = 0;
    std::size_t last = 0;
    bool is_recordable = false;
  };
  // What a rank reads of an input of the request: all of it, or its piece.
  struct Entry {
    std::size_t input = 0;  // of the graph
    int slot = 0;
    std::vector<PieceRows> rows;
  };
  // What a kernel was made from; kept as long as the kernel.
  struct Spec {
    std::vector<TensorDesc> inputs;
    std::vector<TensorDesc> outputs;
    std::vector<const Tensor*> constants;
  };

  Program(const Graph& graph, SymbolMap symbols, int rank, RankDevice& device,
          RankConstants* constants)
      : graph_(graph),
        symbols_(std::move(symbols)),
        rank_(rank),
        device_(device),
        constants_(constants) {}

  // Null where the value is no constant of this rank.
  Result<const Tensor*> constant_of(const Value* value);

  using Descriptions = std::unordered_map<const Value*, TensorDesc>;
  Status make_kernels(const Descriptions& descriptions, std::vector<std::size_t>* workspaces,
                      RankProfile* op_rows);
  // Steps of joined nodes that the device takes, by the position where they run.
  using JoinedSteps = std::map<std::size_t, Step>;
  Status join_steps(const Descriptions& descriptions, RankProfile* op_rows, JoinedSteps* steps,
                    std::vector<bool>* is_joined);
  // The step with its kernel; none where there is nothing to compute.
  Result<std::optional<Step>> make_step(Step step, std::size_t position,
                                        const Descriptions& descriptions, RankProfile* op_rows);
  Status place_constants();
  void find_stretches();
  Status find_entries();
  void resolve(const ProgramRun& run);
  void make_take_key(const ProgramRun& run);
  Status read_inputs(const ProgramRun& run);
  Status run_step(const Step& step, const ProgramRun& run);
  Status run_all(const ProgramRun& run, RankHooks* hooks);
  Status run_steps(const ProgramRun& run, RankHooks* hooks);
  Status run_profiled(const ProgramRun& run, RankHooks* hooks);
  Status run_takes(const ProgramRun& run, RankHooks* hooks);
  Status run_stretch(const Stretch& stretch, const ProgramRun& run);
  Result<std::unique_ptr<Recording>> record(const Stretch& stretch, const ProgramRun& run);
  Status replay(Recording& recording, const Stretch& stretch, const ProgramRun& run,
                RankHooks* hooks);
  Status write_outputs(const ProgramRun& run);

  const Graph& graph_;
  const SymbolMap symbols_;
  const int rank_;
  RankDevice& device_;
  RankConstants* constants_;
  // What kernels were made from; afterwards only what they go on reading.
  std::unordered_map<const Value*, std::shared_ptr<const Tensor>> held_;
  std::vector<JoinedNodes> joined_;  // those that the device runs as one
  StorageMap map_;
  StorageOptions storage_;
  std::deque<Spec> specs_;
  std::vector<Step> steps_;
  std::vector<int> operands_;     // slots; -1 for an absent input
  std::vector<void*> addresses_;  // by slot
  std::vector<Entry> entries_;
  std::vector<Stretch> stretches_;
  Takes takes_;
  std::size_t input_row_ = 0;  // in profiles
  std::size_t output_row_ = 0;
  std::vector<const void*> take_key_;  // scratch
  std::vector<const void*> input_scratch_;
  std::vector<void*> output_scratch_;
};

}  // namespace tutti
