#include "runtime/executor.h"

#include <algorithm>

namespace tutti {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Index of the graph output that `name` is, -1 when there is none.
int find_output(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const bool is_named = i < graph.output_names.size() && graph.output_names[i] == name;
    if (is_named || graph.outputs()[i]->name() == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(const Plan& plan,
                                                   std::unique_ptr<RankDevice> device,
                                                   ExecutorOptions options) {
  std::unique_ptr<Executor> executor(new Executor(plan, std::move(device), std::move(options)));
  if (plan.prologue != nullptr) {
    TUTTI_RETURN_IF_ERROR(executor->set_up(&executor->prologue_, *plan.prologue));
    executor->slots_.resize(static_cast<std::size_t>(executor->options_.prologue_slots));
  }
  TUTTI_RETURN_IF_ERROR(executor->set_up(&executor->main_, *plan.main));
  if (plan.main->outputs().size() != plan.outputs.size()) {
    return invalid_argument("plan: graph '", plan.main->name, "' has ", plan.main->outputs().size(),
                            " outputs, expected ", plan.outputs.size());
  }
  return executor;
}

Status Executor::set_up(Compiled* compiled, const Graph& graph) {
  compiled->graph = &graph;
  compiled->symbols = size_symbols(graph);
  for (const Value* input : graph.inputs()) {
    InputSource source;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (plan_.inputs[i].name == input->name()) source.plan_input = static_cast<int>(i);
    }
    if (source.plan_input < 0 && prologue_.graph != nullptr && compiled == &main_) {
      source.prologue_output = find_output(*prologue_.graph, input->name());
    }
    if (source.plan_input < 0 && source.prologue_output < 0) {
      return invalid_argument("plan: input '", input->name(), "' of graph '", graph.name,
                              "' is neither an input of the model nor a result of the prologue");
    }
    compiled->sources.push_back(source);
  }
  compiled->inputs.resize(graph.inputs().size());
  compiled->outputs.resize(graph.outputs().size());
  return {};
}

const Executor::Entry* Executor::find_entry(const Compiled& compiled, const ShapeBinding& shapes) {
  const auto matches = [&](const Entry& entry) {
    for (std::size_t i = 0; i < entry.key.size(); ++i) {
      const auto it = shapes.symbols.find(compiled.symbols[i]);
      if (it == shapes.symbols.end() || it->second != entry.key[i]) return false;
    }
    return true;
  };
  const auto found = std::find_if(compiled.entries.begin(), compiled.entries.end(), matches);
  return found == compiled.entries.end() ? nullptr : &*found;
}

Result<Executor::Entry*> Executor::entry_for(Compiled* compiled, const ShapeBinding& shapes) {
  if (const Entry* found = find_entry(*compiled, shapes)) {
    Entry& entry = compiled->entries[static_cast<std::size_t>(found - compiled->entries.data())];
    entry.last_use = ++uses_;
    return &entry;
  }

  Entry entry;
  for (const std::string& symbol : compiled->symbols) {
    const auto it = shapes.symbols.find(symbol);
    if (it == shapes.symbols.end()) {
      return invalid_argument("plan: size '", symbol, "' of graph '", compiled->graph->name,
                              "' is not determined by the inputs");
    }
    entry.key.push_back(it->second);
  }
  SymbolMap symbols = shapes.symbols;
  plan_.mesh.bind(options_.rank, &symbols);
  StorageOptions storage;
  for (const InputSource& source : compiled->sources) {
    storage.input_in_place.push_back(source.prologue_output >= 0 || device_->is_host_memory());
  }
  const bool is_main = compiled == &main_;
  storage.needs_outputs = !is_main || options_.gives_outputs;
  storage.outputs_in_place = !is_main || device_->is_host_memory();
  if (compiled->entries.size() >= static_cast<std::size_t>(std::max(options_.max_programs, 1))) {
    compiled->entries.erase(
        std::min_element(compiled->entries.begin(), compiled->entries.end(),
                         [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; }));
  }
  TUTTI_ASSIGN_OR_RETURN(
      entry.program, Program::create(*compiled->graph, std::move(symbols), options_.rank, *device_,
                                     &constants_, storage, &profile_));
  weight_bytes_.store(constants_.bytes(), std::memory_order_relaxed);
  entry.last_use = ++uses_;
  compiled->entries.push_back(std::move(entry));
  return &compiled->entries.back();
}

Status Executor::grow_arena(std::size_t bytes) {
  if (arena_ != nullptr && arena_->size() >= bytes) return {};
  arena_.reset();  // first, so that old and new never exist together
  arena_bytes_.store(0, std::memory_order_relaxed);
  TUTTI_ASSIGN_OR_RETURN(arena_, device_->allocate(bytes));
  arena_bytes_.store(bytes, std::memory_order_relaxed);
  return {};
}

// Where in a slot each result of the prologue lies; grows the slot when it is to be filled.
Status Executor::lay_out_slot(const Program& program, int slot, bool may_grow) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < prologue_.outputs.size(); ++i) {
    bytes += align_up(program.output_desc(i).byte_size());
  }
  std::unique_ptr<DeviceBuffer>& buffer = slots_[static_cast<std::size_t>(slot)];
  if (may_grow && (buffer == nullptr || buffer->size() < bytes)) {
    const std::size_t old = buffer == nullptr ? 0 : buffer->size();
    buffer.reset();
    slot_bytes_.fetch_sub(old, std::memory_order_relaxed);
    TUTTI_ASSIGN_OR_RETURN(buffer, device_->allocate(bytes));
    slot_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  if (buffer == nullptr || buffer->size() < bytes) {
    return internal_error("prologue slot ", slot, " is read before it is filled");
  }
  auto* next = static_cast<std::byte*>(buffer->data());
  for (std::size_t i = 0; i < prologue_.outputs.size(); ++i) {
    prologue_.outputs[i] = next;
    next += align_up(program.output_desc(i).byte_size());
  }
  return {};
}

Status Executor::run_graph(Compiled* compiled, Program* program, const RankJob& job) {
  for (std::size_t i = 0; i < compiled->sources.size(); ++i) {
    const InputSource& source = compiled->sources[i];
    compiled->inputs[i] = source.plan_input >= 0
                              ? static_cast<const void*>(
                                    job.inputs[static_cast<std::size_t>(source.plan_input)].data())
                              : prologue_.outputs[static_cast<std::size_t>(source.prologue_output)];
  }
  ProgramRun run;
  run.arena = static_cast<std::byte*>(arena_->data());
  run.inputs = compiled->inputs;
  run.outputs = compiled->outputs;
  run.stop = &job.stop;
  run.progress = &progress_;
  run.group = options_.group.get();
  run.profile = job.is_profiled ? &profile_ : nullptr;
  run.timeline = job.is_profiled ? &timeline_ : nullptr;
  return program->run(run, options_.hooks.get());
}

Status Executor::run(const RankJob& job) {
  // Both programs before either runs: the arena must be large enough for both. Whatever happened to
  // it in a request that found no room for a larger one.
  Program* prologue = nullptr;
  if (job.prologue_slot >= 0 || (job.only_prepares && prologue_.graph != nullptr)) {
    TUTTI_ASSIGN_OR_RETURN(const Entry* entry, entry_for(&prologue_, *job.shapes));
    prologue = entry->program.get();
  }
  TUTTI_ASSIGN_OR_RETURN(Entry * main, entry_for(&main_, *job.shapes));
  const std::size_t prologue_bytes = prologue == nullptr ? 0 : prologue->arena_bytes();
  TUTTI_RETURN_IF_ERROR(grow_arena(std::max(prologue_bytes, main->program->arena_bytes())));
  if (job.only_prepares) return {};
  timeline_.clear();
  if (prologue != nullptr) {
    TUTTI_RETURN_IF_ERROR(lay_out_slot(*prologue, job.prologue_slot, job.runs_prologue));
    if (job.runs_prologue) {
      const Status status = run_graph(&prologue_, prologue, job);
      if (!status.ok()) return status.with_context("prologue");
    }
  }
  if (options_.gives_outputs) {
    for (std::size_t i = 0; i < main_.outputs.size(); ++i) {
      main_.outputs[i] = const_cast<std::byte*>(job.outputs[i].data());
    }
  }
  const auto started = std::chrono::steady_clock::now();
  TUTTI_RETURN_IF_ERROR(run_graph(&main_, main->program.get(), job));
  main->took = std::chrono::steady_clock::now() - started;
  return {};
}

std::optional<std::chrono::nanoseconds> Executor::expected_time(const RankJob& job) const {
  const bool waits = !device_->is_host_memory() || plan_.mesh.num_ranks() > 1;
  const bool is_plain = !job.runs_prologue && !job.is_profiled && !job.only_prepares;
  if (waits || !is_plain || options_.hooks != nullptr) return std::nullopt;
  const Entry* entry = find_entry(main_, *job.shapes);
  return entry == nullptr ? std::nullopt : entry->took;
}

RankMemory Executor::memory() const {
  return {options_.rank, arena_bytes_.load(std::memory_order_relaxed),
          slot_bytes_.load(std::memory_order_relaxed),
          weight_bytes_.load(std::memory_order_relaxed)};
}

RankTimeline Executor::take_timeline() { return std::exchange(timeline_, {}); }

RankProfile Executor::take_profile() {
  RankProfile taken;
  for (OpTime& row : profile_) {
    if (row.calls > 0) taken.push_back(row);
    row.calls = 0;
    row.seconds = 0;
  }
  return taken;
}

}  // namespace tutti
