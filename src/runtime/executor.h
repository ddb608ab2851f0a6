// One rank: runs a plan's graphs on a device, for any combination of input sizes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "runtime/backend.h"
#include "runtime/program.h"
#include "runtime/shape_binding.h"

namespace tutti {

struct ExecutorOptions {
  int rank = 0;
  bool gives_outputs = true;  // one rank of a group does
  int max_programs = 4;       // sizes for which kernels are kept; each may hold repacked weights
  int prologue_slots = 8;
  std::shared_ptr<RankHooks> hooks;     // optional
  std::shared_ptr<Communicator> group;  // all ranks; null for one
};

// One request as all ranks get it. Decisions are in here, taken once: ranks must not differ.
struct RankJob {
  std::shared_ptr<const ShapeBinding> shapes;
  std::vector<Tensor> inputs;   // by Plan::inputs; ranks read them in place
  std::vector<Tensor> outputs;  // by Plan::outputs, of the sizes in `shapes`; written in place
  int prologue_slot = -1;       // where the prologue's results lie; -1 when there is no prologue
  bool runs_prologue = false;   // fill the slot first
  bool is_profiled = false;
  bool only_prepares = false;     // make kernels for `shapes`, run nothing
  std::atomic<bool> stop{false};  // any rank that sees it gives up before its next node
};

struct RankMemory {
  int rank = 0;
  std::size_t arena_bytes = 0;
  std::size_t prologue_bytes = 0;  // results kept
  std::size_t weight_bytes = 0;    // constants, and of those that ranks share this rank's pieces
};

// Used by one thread at a time; memory() and progress() from any.
class Executor {
 public:
  // The plan outlives the executor. The device is the executor's own.
  static Result<std::unique_ptr<Executor>> create(const Plan& plan,
                                                  std::unique_ptr<RankDevice> device,
                                                  ExecutorOptions options);

  // Collective over the ranks of the plan's mesh. Allocates nothing for sizes seen before, unless
  // more than max_programs of them alternate.
  Status run(const RankJob& job);
  // How long the last run of these sizes took: one that waited for nobody, neither a device nor
  // other ranks, and that nobody watches. None when there was none, or the job has more to do.
  std::optional<std::chrono::nanoseconds> expected_time(const RankJob& job) const;

  const RankProgress& progress() const { return progress_; }
  RankMemory memory() const;
  RankProfile take_profile();
  RankTimeline take_timeline();  // of the last profiled run

 private:
  // Where an input of a graph comes from.
  struct InputSource {
    int plan_input = -1;       // index into Plan::inputs
    int prologue_output = -1;  // index into the prologue's outputs
  };
  // A program and what it was made for.
  struct Entry {
    std::vector<std::int64_t> key;  // values of the symbols that matter
    std::unique_ptr<Program> program;
    std::uint64_t last_use = 0;
    std::optional<std::chrono::nanoseconds> took;  // the last good run
  };
  // One graph of the plan with its programs.
  struct Compiled {
    const Graph* graph = nullptr;
    std::vector<std::string> symbols;
    std::vector<InputSource> sources;  // by graph input
    std::vector<Entry> entries;
    std::vector<const void*> inputs;  // scratch of run()
    std::vector<void*> outputs;
  };

  Executor(const Plan& plan, std::unique_ptr<RankDevice> device, ExecutorOptions options)
      : plan_(plan), device_(std::move(device)), options_(std::move(options)) {}

  Status set_up(Compiled* compiled, const Graph& graph);
  static const Entry* find_entry(const Compiled& compiled, const ShapeBinding& shapes);
  Result<Entry*> entry_for(Compiled* compiled, const ShapeBinding& shapes);
  Status grow_arena(std::size_t bytes);
  Status lay_out_slot(const Program& program, int slot, bool may_grow);
  Status run_graph(Compiled* compiled, Program* program, const RankJob& job);

  const Plan& plan_;
  std::unique_ptr<RankDevice> device_;  // before what its memory and kernels are in
  RankConstants constants_;
  ExecutorOptions options_;
  Compiled main_;
  Compiled prologue_;
  std::unique_ptr<DeviceBuffer> arena_;
  std::vector<std::unique_ptr<DeviceBuffer>> slots_;
  std::uint64_t uses_ = 0;
  RankProgress progress_;
  RankProfile profile_;
  RankTimeline timeline_;
  std::atomic<std::size_t> arena_bytes_{0};
  std::atomic<std::size_t> slot_bytes_{0};
  std::atomic<std::size_t> weight_bytes_{0};
};

}  // namespace tutti
