#include "runtime/program.h"

#include <algorithm>
#include <iterator>

#include "graph/rank_constant.h"
#include "runtime/fused_exchanges.h"
#include "runtime/pipelines.h"

namespace tutti {
namespace {

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

// Nobody wants the whole of the input, only pieces of it.
bool is_only_cut(const Value& input, const Graph& graph) {
  const auto& outputs = graph.outputs();
  return !input.users().empty() &&
         std::find(outputs.begin(), outputs.end(), &input) == outputs.end() &&
         std::all_of(input.users().begin(), input.users().end(),
                     [](const Node* user) { return user->type() == "ShardSlice"; });
}

}  // namespace

Result<std::unique_ptr<Program>> Program::create(const Graph& graph, SymbolMap symbols, int rank,
                                                 RankDevice& device, RankConstants* constants,
                                                 const StorageOptions& storage,
                                                 RankProfile* op_rows) {
  std::unique_ptr<Program> program(new Program(graph, std::move(symbols), rank, device, constants));
  program->storage_ = storage;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    program->storage_.input_is_cut.push_back(!storage.input_in_place[i] &&
                                             is_only_cut(*graph.inputs()[i], graph));
  }
  program->input_row_ = row_of("(inputs)", op_rows);
  program->output_row_ = row_of("(outputs)", op_rows);
  TUTTI_ASSIGN_OR_RETURN(auto descriptions, describe_values(graph, program->symbols_));
  std::vector<std::size_t> workspaces(graph.nodes().size(), 0);
  TUTTI_RETURN_IF_ERROR(program->make_kernels(descriptions, &workspaces, op_rows));
  program->map_ = plan_storage(graph, std::move(descriptions), workspaces, program->storage_);
  // Operands by address, now that every value has one.
  std::size_t most_inputs = 0;
  std::size_t most_outputs = 0;
  for (Step& step : program->steps_) {
    step.first_operand = program->operands_.size();
    for (const Value* input : step.inputs) {
      program->operands_.push_back(input == nullptr ? -1 : program->map_.slot_of.at(input));
    }
    for (const Value* output : step.outputs) {
      program->operands_.push_back(program->map_.slot_of.at(output));
    }
    most_inputs = std::max(most_inputs, step.num_inputs);
    most_outputs = std::max(most_outputs, step.num_outputs);
  }
  program->input_scratch_.resize(most_inputs);
  program->output_scratch_.resize(most_outputs);
  program->addresses_.assign(program->map_.slots.size(), nullptr);
  program->find_stretches();
  TUTTI_RETURN_IF_ERROR(program->find_entries());
  TUTTI_RETURN_IF_ERROR(program->place_constants());
  return program;
}

Result<std::optional<Program::Step>> Program::make_step(Step step, std::size_t position,
                                                        const Descriptions& descriptions,
                                                        RankProfile* op_rows) {
  Spec spec;
  for (const Value* input : step.inputs) {
    spec.inputs.push_back(input == nullptr ? TensorDesc() : descriptions.at(input));
  }
  for (const Value* output : step.outputs) spec.outputs.push_back(descriptions.at(output));
  if (is_idle(*step.node, spec.outputs)) return std::optional<Step>();
  for (const Value* input : step.inputs) {
    TUTTI_ASSIGN_OR_RETURN(const Tensor* constant, constant_of(input));
    spec.constants.push_back(constant);
  }
  specs_.push_back(std::move(spec));
  const Spec& kept = specs_.back();
  TUTTI_ASSIGN_OR_RETURN(step.kernel, device_.make_kernel({*step.node, kept.inputs, kept.outputs,
                                                           kept.constants, symbols_}));
  step.has_workspace = step.kernel->workspace_bytes() > 0;
  step.is_exchange = step.node->op().is_exchange;
  step.num_inputs = step.inputs.size();
  step.num_outputs = step.outputs.size();
  step.position = position;
  step.op_row = row_of(step.node->type(), op_rows);
  return std::optional<Step>(std::move(step));
}

// Nodes that could be joined in several ways are in the first that the device takes.
Status Program::join_steps(const Descriptions& descriptions, RankProfile* op_rows,
                           JoinedSteps* steps, std::vector<bool>* is_joined) {
  if (device_.is_host_memory()) return {};
  std::vector<JoinedNodes> candidates = find_pipelines(graph_, true);
  const auto append = [&](std::vector<JoinedNodes> found) {
    std::move(found.begin(), found.end(), std::back_inserter(candidates));
  };
  append(find_pipelines(graph_, false));
  append(find_fused_exchanges(graph_));
  for (JoinedNodes& nodes : candidates) {
    if (std::any_of(nodes.positions.begin(), nodes.positions.end(),
                    [&](std::size_t position) { return (*is_joined)[position]; })) {
      continue;
    }
    Step step;
    step.node = &nodes.node();
    step.inputs = nodes.inputs;
    step.outputs = nodes.outputs;
    Result<std::optional<Step>> made = make_step(std::move(step), nodes.at, descriptions, op_rows);
    if (!made.ok()) {
      if (made.status().code() != StatusCode::kUnimplemented) return made.status();
      continue;
    }
    steps->emplace(nodes.at, **std::move(made));
    for (const std::size_t position : nodes.positions) (*is_joined)[position] = true;
    storage_.joined.push_back({nodes.at, nodes.positions});
    joined_.push_back(std::move(nodes));
  }
  return {};
}

Status Program::make_kernels(const Descriptions& descriptions, std::vector<std::size_t>* workspaces,
                             RankProfile* op_rows) {
  JoinedSteps joined;
  std::vector<bool> is_joined(graph_.nodes().size(), false);
  TUTTI_RETURN_IF_ERROR(join_steps(descriptions, op_rows, &joined, &is_joined));
  const auto add = [&](Step step) {
    (*workspaces)[step.position] = step.kernel->workspace_bytes();
    steps_.push_back(std::move(step));
  };
  std::size_t position = 0;
  for (const auto& node : graph_.nodes()) {
    const std::size_t at = position++;
    if (is_joined[at]) {
      if (const auto found = joined.find(at); found != joined.end()) add(std::move(found->second));
      continue;
    }
    if (node->op().is_view || cuts_constant(*node) || cuts_input(*node, graph_, storage_)) continue;
    Step step;
    step.node = node.get();
    step.inputs.assign(node->inputs().begin(), node->inputs().end());
    step.outputs.assign(node->outputs().begin(), node->outputs().end());
    TUTTI_ASSIGN_OR_RETURN(std::optional<Step> made,
                           make_step(std::move(step), at, descriptions, op_rows));
    if (made) add(*std::move(made));
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
    const Value& constant = *map_.slots[i].constant;
    TUTTI_ASSIGN_OR_RETURN(const Tensor* held, constant_of(&constant));
    (void)held;  // so that the host's copy stays where the device reads it
    TUTTI_ASSIGN_OR_RETURN(const void* place, constants_->place(constant, symbols_, device_));
    addresses_[i] = const_cast<void*>(place);
  }
  if (!device_.is_host_memory()) held_.clear();
  return {};
}

void Program::find_stretches() {
  if (device_.records_exchanges()) {
    // By nodes of the graph, not by this rank's steps: all ranks must find the same.
    stretches_.push_back({0, steps_.size(), graph_.nodes().size() >= kShortestRecording});
    return;
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const bool joins = !steps_[i].is_exchange && i > 0 && !steps_[i - 1].is_exchange;
    if (!joins) stretches_.push_back({i, i, false});
    stretches_.back().last = i + 1;
    stretches_.back().is_recordable =
        !steps_[i].is_exchange && i + 1 - stretches_.back().first >= kShortestRecording;
  }
}

Status Program::find_entries() {
  const auto add = [&](std::size_t input, const Value* value, std::vector<PieceRows> rows) {
    entries_.push_back({input, map_.slot_of.at(value), std::move(rows)});
  };
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    if (storage_.input_in_place[i]) continue;
    const Value* input = graph_.inputs()[i];
    const TensorDesc& desc = map_.desc_of.at(input);
    if (!storage_.input_is_cut[i]) {
      const std::size_t bytes = desc.byte_size();
      if (bytes > 0) add(i, input, {{0, bytes, 0, bytes, bytes, 1}});
      continue;
    }
    for (const Node* slice : input->users()) {
      TUTTI_ASSIGN_OR_RETURN(const RankCut cut, cut_of(*slice, symbols_));
      add(i, slice->output(), piece_rows(desc, cut.cut, cut.ranks, cut.rank));
    }
  }
  return {};
}

}  // namespace tutti
