#include "runtime/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "graph/rank_constant.h"

namespace tutti {
namespace {

// Addresses for which recordings are kept: as many as there are places for prologue results.
constexpr std::size_t kMaxTakes = 8;
// Shorter stretches gain nothing from being recorded.
constexpr std::size_t kShortestRecording = 3;

std::size_t row_of(const std::string& op, RankProfile* rows) {
  for (std::size_t i = 0; i < rows->size(); ++i) {
    if ((*rows)[i].op == op) return i;
  }
  rows->push_back({op, 0, 0});
  return rows->size() - 1;
}

// Nothing to compute: every output is empty, and no other rank waits for this one.
bool is_idle(const Node& node, const std::vector<TensorDesc>& outputs) {
  if (node.op().is_exchange) return false;
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const TensorDesc& desc) { return desc.element_count() == 0; });
}

}  // namespace

Result<std::unique_ptr<Program>> Program::create(const Graph& graph, SymbolMap symbols, int rank,
                                                 RankDevice& device, RankConstants* constants,
                                                 const StorageOptions& storage,
                                                 RankProfile* op_rows) {
  std::unique_ptr<Program> program(new Program(graph, std::move(symbols), rank, device, constants));
  program->storage_ = storage;
  TUTTI_ASSIGN_OR_RETURN(auto descriptions, describe_values(graph, program->symbols_));
  std::vector<std::size_t> workspaces(graph.nodes().size(), 0);
  TUTTI_RETURN_IF_ERROR(program->make_kernels(descriptions, &workspaces, op_rows));
  program->map_ = plan_storage(graph, std::move(descriptions), workspaces, storage);
  // Operands by address, now that every value has one.
  std::size_t most_inputs = 0;
  std::size_t most_outputs = 0;
  for (Step& step : program->steps_) {
    step.first_operand = program->operands_.size();
    for (const Value* input : step.node->inputs()) {
      program->operands_.push_back(input == nullptr ? -1 : program->map_.slot_of.at(input));
    }
    for (const Value* output : step.node->outputs()) {
      program->operands_.push_back(program->map_.slot_of.at(output));
    }
    most_inputs = std::max(most_inputs, step.num_inputs);
    most_outputs = std::max(most_outputs, step.num_outputs);
  }
  program->input_scratch_.resize(most_inputs);
  program->output_scratch_.resize(most_outputs);
  program->addresses_.assign(program->map_.slots.size(), nullptr);
  program->find_stretches();
  TUTTI_RETURN_IF_ERROR(program->place_constants());
  return program;
}

Status Program::make_kernels(const std::unordered_map<const Value*, TensorDesc>& descriptions,
                             std::vector<std::size_t>* workspaces, RankProfile* op_rows) {
  std::size_t position = 0;
  for (const auto& node : graph_.nodes()) {
    const std::size_t at = position++;
    if (node->op().is_view || cuts_constant(*node)) continue;
    Spec spec;
    for (const Value* input : node->inputs()) {
      spec.inputs.push_back(input == nullptr ? TensorDesc() : descriptions.at(input));
    }
    for (const Value* output : node->outputs()) spec.outputs.push_back(descriptions.at(output));
    if (is_idle(*node, spec.outputs)) continue;
    for (const Value* input : node->inputs()) {
      TUTTI_ASSIGN_OR_RETURN(const Tensor* constant, constant_of(input));
      spec.constants.push_back(constant);
    }
    specs_.push_back(std::move(spec));
    const Spec& kept = specs_.back();
    TUTTI_ASSIGN_OR_RETURN(
        std::unique_ptr<Kernel> kernel,
        device_.make_kernel({*node, kept.inputs, kept.outputs, kept.constants, symbols_}));
    (*workspaces)[at] = kernel->workspace_bytes();
    Step step;
    step.node = node.get();
    step.has_workspace = kernel->workspace_bytes() > 0;
    step.kernel = std::move(kernel);
    step.is_exchange = node->op().is_exchange;
    step.num_inputs = node->inputs().size();
    step.num_outputs = node->outputs().size();
    step.position = at;
    step.op_row = row_of(node->type(), op_rows);
    steps_.push_back(std::move(step));
  }
  return {};
}

Result<const Tensor*> Program::constant_of(const Value* value) {
  if (value == nullptr || sliced_constant(*value) == nullptr) return nullptr;
  std::shared_ptr<const Tensor>& held = held_[value];
  if (held == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(held, constants_->get(*value, symbols_));
  }
  return held.get();
}

// Constants that some kernel or output reads; those that kernels have repacked cost nothing.
Status Program::place_constants() {
  std::vector<bool> is_read(map_.slots.size(), false);
  for (const Step& step : steps_) {
    for (std::size_t i = 0; i < step.num_inputs; ++i) {
      const int slot = operands_[step.first_operand + i];
      if (slot >= 0 && !step.kernel->consumes_constant(i)) {
        is_read[static_cast<std::size_t>(slot)] = true;
      }
    }
  }
  for (const OutputCopy& copy : map_.copies) is_read[static_cast<std::size_t>(copy.slot)] = true;
  for (std::size_t i = 0; i < map_.slots.size(); ++i) {
    if (map_.slots[i].kind != StorageSlot::Kind::kConstant) continue;
    if (!is_read[i]) {
      held_.erase(map_.slots[i].constant);
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(const Tensor* constant, constant_of(map_.slots[i].constant));
    TUTTI_ASSIGN_OR_RETURN(const void* place, device_.place_constant(*constant));
    addresses_[i] = const_cast<void*>(place);
  }
  return {};
}

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

Status Program::upload_inputs(const ProgramRun& run) {
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    if (storage_.input_in_place[i]) continue;
    const auto slot = static_cast<std::size_t>(map_.slot_of.at(graph_.inputs()[i]));
    TUTTI_RETURN_IF_ERROR(device_.upload(addresses_[slot], run.inputs[i], map_.slots[slot].bytes));
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
  run.progress->in_exchange.store(true, std::memory_order_release);
  Status status = step.kernel->run(args);
  run.progress->in_exchange.store(false, std::memory_order_release);
  return status;
}

Status Program::copy_outputs(const ProgramRun& run) {
  for (const OutputCopy& copy : map_.copies) {
    void* target = run.outputs[static_cast<std::size_t>(copy.output)];
    const void* source = addresses_[static_cast<std::size_t>(copy.slot)];
    if (copy.bytes == 0) continue;
    if (device_.is_host_memory() || !storage_.outputs_in_place) {
      TUTTI_RETURN_IF_ERROR(device_.download(target, source, copy.bytes));
      continue;
    }
    TUTTI_RETURN_IF_ERROR(device_.copy(target, source, copy.bytes));
  }
  return {};
}

void Program::find_stretches() {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const bool joins = !steps_[i].is_exchange && i > 0 && !steps_[i - 1].is_exchange;
    if (!joins) stretches_.push_back({i, i, false});
    stretches_.back().last = i + 1;
    stretches_.back().is_recordable =
        !steps_[i].is_exchange && i + 1 - stretches_.back().first >= kShortestRecording;
  }
}

// The recordings for the addresses of this run; `has_run` is false where they are still to be made.
Program::Take* Program::find_take(const ProgramRun& run, bool* has_run) {
  take_key_.clear();
  take_key_.push_back(run.arena);
  for (std::size_t i = 0; i < map_.slots.size(); ++i) {
    const StorageSlot::Kind kind = map_.slots[i].kind;
    if (kind == StorageSlot::Kind::kInput || kind == StorageSlot::Kind::kOutput) {
      take_key_.push_back(addresses_[i]);
    }
  }
  const auto found = std::find_if(takes_.begin(), takes_.end(),
                                  [&](const Take& take) { return take.addresses == take_key_; });
  *has_run = found != takes_.end();
  if (found != takes_.end()) {
    found->last_use = ++uses_;
    return &*found;
  }
  if (takes_.size() >= kMaxTakes) {
    takes_.erase(std::min_element(takes_.begin(), takes_.end(), [](const Take& a, const Take& b) {
      return a.last_use < b.last_use;
    }));
  }
  takes_.push_back({take_key_, {}, ++uses_});
  return &takes_.back();
}

Status Program::run_stretch(const Stretch& stretch, const ProgramRun& run) {
  for (std::size_t i = stretch.first; i < stretch.last; ++i) {
    if (run.stop->load(std::memory_order_acquire)) {
      return Status(StatusCode::kCancelled, "stopped");
    }
    run.progress->node.store(steps_[i].node, std::memory_order_release);
    const Status status = run_step(steps_[i], run);
    if (!status.ok()) return status.with_context(steps_[i].node->describe());
  }
  return {};
}

Result<std::unique_ptr<Recording>> Program::record(const Stretch& stretch, const ProgramRun& run) {
  TUTTI_RETURN_IF_ERROR(device_.begin_recording());
  const Status noted = run_stretch(stretch, run);
  // Also after an error: the device must not stay in the middle of it.
  Result<std::unique_ptr<Recording>> recording = device_.end_recording();
  TUTTI_RETURN_IF_ERROR(noted);
  return recording;
}

// The first run at certain addresses goes step by step, the second is recorded, later ones repeat.
Status Program::run_stretches(const ProgramRun& run) {
  bool has_run = false;
  Take* take = find_take(run, &has_run);
  const bool records = has_run && take->recordings.empty();
  std::vector<std::unique_ptr<Recording>> recordings;
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    const Stretch& stretch = stretches_[i];
    if (run.stop->load(std::memory_order_acquire)) {
      return Status(StatusCode::kCancelled, "stopped");
    }
    if (records) {
      std::unique_ptr<Recording> made;
      if (stretch.is_recordable) {
        TUTTI_ASSIGN_OR_RETURN(made, record(stretch, run));
      }
      recordings.push_back(std::move(made));
    }
    Recording* recording = records                    ? recordings.back().get()
                           : take->recordings.empty() ? nullptr
                                                      : take->recordings[i].get();
    if (recording == nullptr) {
      TUTTI_RETURN_IF_ERROR(run_stretch(stretch, run));
      continue;
    }
    const Node& first = *steps_[stretch.first].node;
    run.progress->node.store(&first, std::memory_order_release);
    const Status status = recording->replay();
    if (!status.ok()) return status.with_context(str_cat("recording from ", first.describe()));
  }
  if (records) take->recordings = std::move(recordings);
  return {};
}

// Node by node, for who watches or times them.
Status Program::run_steps(const ProgramRun& run, RankHooks* hooks) {
  using Clock = std::chrono::steady_clock;
  const bool is_timed = run.profile != nullptr;
  const bool has_clock = is_timed && device_.has_clock();
  if (has_clock) TUTTI_RETURN_IF_ERROR(device_.mark(0));
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (run.stop->load(std::memory_order_acquire)) {
      return Status(StatusCode::kCancelled, "stopped");
    }
    run.progress->node.store(step.node, std::memory_order_release);
    if (hooks != nullptr) TUTTI_RETURN_IF_ERROR(hooks->before_node(rank_, *step.node));
    const Clock::time_point start = is_timed ? Clock::now() : Clock::time_point();
    const Status status = run_step(step, run);
    if (!status.ok()) return status.with_context(step.node->describe());
    if (has_clock) {
      TUTTI_RETURN_IF_ERROR(device_.mark(i + 1));
    } else if (is_timed) {
      TUTTI_RETURN_IF_ERROR(device_.finish());
      OpTime& row = (*run.profile)[step.op_row];
      ++row.calls;
      row.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    }
  }
  if (!has_clock) return {};
  TUTTI_RETURN_IF_ERROR(device_.finish());
  return count_times(run.profile);
}

Status Program::count_times(RankProfile* rows) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(const double seconds, device_.seconds_between(i, i + 1));
    OpTime& row = (*rows)[steps_[i].op_row];
    ++row.calls;
    row.seconds += seconds;
  }
  return {};
}

Status Program::run_all(const ProgramRun& run, RankHooks* hooks) {
  resolve(run);
  TUTTI_RETURN_IF_ERROR(upload_inputs(run));
  const bool repeats = device_.can_record() && hooks == nullptr && run.profile == nullptr;
  TUTTI_RETURN_IF_ERROR(repeats ? run_stretches(run) : run_steps(run, hooks));
  TUTTI_RETURN_IF_ERROR(copy_outputs(run));
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
