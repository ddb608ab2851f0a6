#include <chrono>

#include "runtime/program.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Says that the rank waits for others, as long as it lives.
class InExchange {
 public:
  explicit InExchange(RankProgress& progress)
      : progress_(progress), was_(progress.in_exchange.exchange(true)) {}
  ~InExchange() { progress_.in_exchange.store(was_, std::memory_order_release); }
  InExchange(const InExchange&) = delete;
  InExchange& operator=(const InExchange&) = delete;

 private:
  RankProgress& progress_;
  const bool was_;
};

// The device must not stay in the middle of a recording, whatever happens.
class DropUnlessEnded {
 public:
  explicit DropUnlessEnded(RankDevice& device) : device_(device) {}
  ~DropUnlessEnded() {
    if (!has_ended) device_.drop_recording();
  }
  DropUnlessEnded(const DropUnlessEnded&) = delete;
  DropUnlessEnded& operator=(const DropUnlessEnded&) = delete;
  bool has_ended = false;

 private:
  RankDevice& device_;
};

Status stopped() { return Status(StatusCode::kCancelled, "stopped"); }

}  // namespace

void Program::resolve(const ProgramRun& run) {
  for (std::size_t i = 0; i < map_.slots.size(); ++i) {
    const StorageSlot& slot = map_.slots[i];
    const auto index = static_cast<std::size_t>(slot.index);
    switch (slot.kind) {
      case StorageSlot::Kind::kArena: addresses_[i] = run.arena + slot.offset; break;
      case StorageSlot::Kind::kInput: addresses_[i] = const_cast<void*>(run.inputs[index]); break;
      case StorageSlot::Kind::kOutput: addresses_[i] = run.outputs[index]; break;
      case StorageSlot::Kind::kConstant: break;
    }
  }
}

Status Program::read_inputs(const ProgramRun& run) {
  for (const Entry& entry : entries_) {
    auto* target = static_cast<std::byte*>(addresses_[static_cast<std::size_t>(entry.slot)]);
    const auto* source = static_cast<const std::byte*>(run.inputs[entry.input]);
    for (const PieceRows& rows : entry.rows) {
      TUTTI_RETURN_IF_ERROR(device_.read_input({target + rows.target_offset, rows.target_stride,
                                                source + rows.source_offset, rows.source_stride,
                                                rows.row_bytes, rows.rows}));
    }
  }
  return {};
}

Status Program::run_step(const Step& step, const ProgramRun& run) {
  const int* operand = operands_.data() + step.first_operand;
  for (std::size_t i = 0; i < step.num_inputs; ++i, ++operand) {
    input_scratch_[i] = *operand < 0 ? nullptr : addresses_[static_cast<std::size_t>(*operand)];
  }
  for (std::size_t i = 0; i < step.num_outputs; ++i, ++operand) {
    output_scratch_[i] = addresses_[static_cast<std::size_t>(*operand)];
  }
  KernelArgs args;
  args.inputs = {input_scratch_.data(), step.num_inputs};
  args.outputs = {output_scratch_.data(), step.num_outputs};
  if (step.has_workspace) args.workspace = run.arena + map_.workspace_offsets[step.position];
  if (!step.is_exchange) return step.kernel->run(args);
  const InExchange waiting(*run.progress);
  if (device_.has_clock()) return step.kernel->run(args);  // returns before it has run
  const Clock::time_point began = Clock::now();
  const Status status = step.kernel->run(args);
  const std::chrono::nanoseconds took = Clock::now() - began;
  run.progress->exchange_ns.fetch_add(took.count(), std::memory_order_relaxed);
  return status;
}

Status Program::write_outputs(const ProgramRun& run) {
  for (const OutputCopy& copy : map_.copies) {
    void* target = run.outputs[static_cast<std::size_t>(copy.output)];
    const void* source = addresses_[static_cast<std::size_t>(copy.slot)];
    if (copy.bytes == 0) continue;
    TUTTI_RETURN_IF_ERROR(!storage_.outputs_in_place
                              ? device_.write_output(target, source, copy.bytes)
                          : device_.is_host_memory() ? device_.download(target, source, copy.bytes)
                                                     : device_.copy(target, source, copy.bytes));
  }
  return {};
}

// What recordings depend on, apart from what never changes.
void Program::make_take_key(const ProgramRun& run) {
  take_key_.clear();
  take_key_.push_back(run.arena);
  for (std::size_t i = 0; i < map_.slots.size(); ++i) {
    const StorageSlot::Kind kind = map_.slots[i].kind;
    if (kind == StorageSlot::Kind::kInput || kind == StorageSlot::Kind::kOutput) {
      take_key_.push_back(addresses_[i]);
    }
  }
}

Status Program::run_stretch(const Stretch& stretch, const ProgramRun& run) {
  for (std::size_t i = stretch.first; i < stretch.last; ++i) {
    if (run.stop->load(std::memory_order_acquire)) {
      return stopped();
    }
    run.progress->node.store(steps_[i].node, std::memory_order_release);
    const Status status = run_step(steps_[i], run);
    if (!status.ok()) return status.with_context(steps_[i].node->describe());
  }
  return {};
}

Result<std::unique_ptr<Recording>> Program::record(const Stretch& stretch, const ProgramRun& run) {
  DropUnlessEnded guard(device_);
  const InExchange waiting(*run.progress);
  TUTTI_RETURN_IF_ERROR(device_.begin_recording());
  TUTTI_RETURN_IF_ERROR(run_stretch(stretch, run));
  Result<std::unique_ptr<Recording>> recording = device_.end_recording();
  guard.has_ended = recording.ok();
  return recording;
}

Status Program::replay(Recording& recording, const Stretch& stretch, const ProgramRun& run,
                       RankHooks* hooks) {
  const Node* first = stretch.first < steps_.size() ? steps_[stretch.first].node : nullptr;
  run.progress->node.store(first, std::memory_order_release);
  if (hooks != nullptr) TUTTI_RETURN_IF_ERROR(hooks->before_replay(rank_));
  const InExchange waiting(*run.progress);
  const Status status = recording.replay();
  if (status.ok() || first == nullptr) return status;
  return status.with_context(str_cat("recording from ", first->describe()));
}

Status Program::run_takes(const ProgramRun& run, RankHooks* hooks) {
  make_take_key(run);
  bool has_run = false;
  Take* take = takes_.find(take_key_, &has_run);
  Communicator* group =
      device_.records_exchanges() && stretches_[0].is_recordable ? run.group : nullptr;
  Pass pass = Pass::kSteps;
  {
    const InExchange waiting(*run.progress);
    TUTTI_ASSIGN_OR_RETURN(pass, takes_.choose(take, has_run, group));
  }
  // Kept only when all of them are there.
  std::vector<std::unique_ptr<Recording>> made;
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    const Stretch& stretch = stretches_[i];
    if (run.stop->load(std::memory_order_acquire)) return stopped();
    Recording* recording = pass == Pass::kReplay ? take->recordings[i].get() : nullptr;
    if (pass == Pass::kRecord) {
      made.emplace_back();
      if (stretch.is_recordable) {
        TUTTI_ASSIGN_OR_RETURN(made.back(), record(stretch, run));
      }
      recording = made.back().get();
    }
    TUTTI_RETURN_IF_ERROR(recording != nullptr ? replay(*recording, stretch, run, hooks)
                                               : run_stretch(stretch, run));
  }
  if (pass == Pass::kRecord) take->recordings = std::move(made);
  return {};
}

// Node by node, for who watches.
Status Program::run_steps(const ProgramRun& run, RankHooks* hooks) {
  for (const Step& step : steps_) {
    if (run.stop->load(std::memory_order_acquire)) return stopped();
    run.progress->node.store(step.node, std::memory_order_release);
    if (hooks != nullptr) TUTTI_RETURN_IF_ERROR(hooks->before_node(rank_, *step.node));
    const Status status = run_step(step, run);
    if (!status.ok()) return status.with_context(step.node->describe());
  }
  return {};
}

// Inputs, nodes and outputs one after the other, each with its time: on the device's own clock
// where it has one, otherwise on the host's.
Status Program::run_profiled(const ProgramRun& run, RankHooks* hooks) {
  const bool has_clock = device_.has_clock();
  TUTTI_RETURN_IF_ERROR(device_.finish());
  const double start = seconds_of(Clock::now());
  std::vector<double> times = {start};
  const auto mark = [&]() -> Status {
    if (has_clock) return device_.mark(times.size() - 1);
    TUTTI_RETURN_IF_ERROR(device_.finish());
    times.back() = seconds_of(Clock::now());
    return {};
  };
  std::vector<std::pair<std::size_t, const Node*>> rows;  // of the profile, by mark after the first
  const auto timed = [&](std::size_t row, const Node* node, auto&& part) -> Status {
    TUTTI_RETURN_IF_ERROR(part());
    times.push_back(0);
    rows.emplace_back(row, node);
    return mark();
  };
  TUTTI_RETURN_IF_ERROR(mark());
  TUTTI_RETURN_IF_ERROR(timed(input_row_, nullptr, [&] { return read_inputs(run); }));
  for (const Step& step : steps_) {
    if (run.stop->load(std::memory_order_acquire)) return stopped();
    run.progress->node.store(step.node, std::memory_order_release);
    if (hooks != nullptr) TUTTI_RETURN_IF_ERROR(hooks->before_node(rank_, *step.node));
    const Status status = timed(step.op_row, step.node, [&] { return run_step(step, run); });
    if (!status.ok()) return status.with_context(step.node->describe());
  }
  TUTTI_RETURN_IF_ERROR(timed(output_row_, nullptr, [&] { return write_outputs(run); }));
  TUTTI_RETURN_IF_ERROR(device_.finish());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (has_clock) {
      TUTTI_ASSIGN_OR_RETURN(const double since_start, device_.seconds_between(0, i + 1));
      times[i + 1] = start + since_start;
    }
    OpTime& row = (*run.profile)[rows[i].first];
    ++row.calls;
    row.seconds += times[i + 1] - times[i];
    if (run.timeline == nullptr) continue;
    const Node* node = rows[i].second;
    run.timeline->push_back(
        {row.op, node == nullptr ? row.op : node->describe(), times[i], times[i + 1] - times[i]});
  }
  return {};
}

Status Program::run_all(const ProgramRun& run, RankHooks* hooks) {
  resolve(run);
  if (run.profile != nullptr) return run_profiled(run, hooks);
  TUTTI_RETURN_IF_ERROR(read_inputs(run));
  const bool repeats = device_.can_record() && (hooks == nullptr || !hooks->watches_nodes());
  TUTTI_RETURN_IF_ERROR(repeats ? run_takes(run, hooks) : run_steps(run, hooks));
  TUTTI_RETURN_IF_ERROR(write_outputs(run));
  return device_.finish();
}

Status Program::run(const ProgramRun& run, RankHooks* hooks) {
  const Status status = run_all(run, hooks);
  if (!status.ok()) {
    takes_.clear();  // perhaps some kernels have never run
    // Whoever hears of the error must find the device idle.
    (void)device_.finish();
    return status;
  }
  run.progress->node.store(nullptr, std::memory_order_release);
  return {};
}

}  // namespace tutti
