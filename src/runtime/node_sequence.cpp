#include "runtime/node_sequence.h"

#include <algorithm>
#include <deque>

#include "runtime/storage.h"

namespace tutti {
namespace {

class NodeSequence final : public Kernel {
 public:
  NodeSequence(const Graph& body, SymbolMap symbols) : body_(body), symbols_(std::move(symbols)) {}

  Status set_up(const KernelSpec& spec, const MakeKernel& make) {
    TUTTI_ASSIGN_OR_RETURN(auto descriptions, describe_values(body_, symbols_));
    std::map<const Value*, const Tensor*> constants;
    for (std::size_t i = 0; i < body_.inputs().size(); ++i) {
      constants.emplace(body_.inputs()[i], spec.constants[i]);
    }
    std::vector<std::size_t> workspaces(body_.nodes().size(), 0);
    std::size_t position = 0;
    for (const auto& node : body_.nodes()) {
      const std::size_t at = position++;
      if (node->op().is_view) continue;
      steps_.emplace_back();
      Step& step = steps_.back();
      step.position = at;
      for (const Value* input : node->inputs()) {
        step.input_descs.push_back(input == nullptr ? TensorDesc() : descriptions.at(input));
        const auto constant = constants.find(input);
        step.constants.push_back(constant == constants.end() ? nullptr : constant->second);
      }
      for (const Value* output : node->outputs()) {
        step.output_descs.push_back(descriptions.at(output));
      }
      Result<std::unique_ptr<Kernel>> kernel =
          make({*node, step.input_descs, step.output_descs, step.constants, symbols_});
      TUTTI_RETURN_IF_ERROR(kernel.status().with_context(node->describe()));
      step.kernel = *std::move(kernel);
      workspaces[at] = step.kernel->workspace_bytes();
    }
    StorageOptions options;
    options.input_in_place.assign(body_.inputs().size(), true);
    map_ = plan_storage(body_, std::move(descriptions), workspaces, options);
    if (!map_.copies.empty()) {
      return invalid_argument("output ", map_.copies[0].output,
                              " of the body is an operand or another output, too");
    }
    for (Step& step : steps_) bind(&step);
    return {};
  }

  std::size_t workspace_bytes() const override { return map_.arena_bytes; }

  Status run(const KernelArgs& args) override {
    auto* arena = static_cast<std::byte*>(args.workspace);
    const auto address = [&](int index) -> void* {
      if (index < 0) return nullptr;
      const StorageSlot& slot = map_.slots[static_cast<std::size_t>(index)];
      const auto i = static_cast<std::size_t>(slot.index);
      if (slot.kind == StorageSlot::Kind::kInput) return const_cast<void*>(args.inputs[i]);
      if (slot.kind == StorageSlot::Kind::kOutput) return args.outputs[i];
      return arena + slot.offset;
    };
    for (Step& step : steps_) {
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        step.input_addresses[i] = address(step.inputs[i]);
      }
      for (std::size_t i = 0; i < step.outputs.size(); ++i) {
        step.output_addresses[i] = address(step.outputs[i]);
      }
      KernelArgs inner;
      inner.inputs = step.input_addresses;
      inner.outputs = step.output_addresses;
      inner.workspace = arena + map_.workspace_offsets[step.position];
      TUTTI_RETURN_IF_ERROR(step.kernel->run(inner));
    }
    return {};
  }

 private:
  struct Step {
    std::size_t position = 0;  // of the node in the body
    std::unique_ptr<Kernel> kernel;
    // What the kernel was made from; kept as long as the kernel.
    std::vector<TensorDesc> input_descs;
    std::vector<TensorDesc> output_descs;
    std::vector<const Tensor*> constants;
    std::vector<int> inputs;  // slots; -1 for an absent one
    std::vector<int> outputs;
    std::vector<const void*> input_addresses;
    std::vector<void*> output_addresses;
  };

  void bind(Step* step) {
    const auto at = static_cast<std::ptrdiff_t>(step->position);
    const Node& node = **std::next(body_.nodes().begin(), at);
    for (const Value* input : node.inputs()) {
      step->inputs.push_back(input == nullptr ? -1 : map_.slot_of.at(input));
    }
    for (const Value* output : node.outputs()) step->outputs.push_back(map_.slot_of.at(output));
    step->input_addresses.resize(step->inputs.size());
    step->output_addresses.resize(step->outputs.size());
  }

  const Graph& body_;
  const SymbolMap symbols_;
  std::deque<Step> steps_;
  StorageMap map_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_node_sequence(const KernelSpec& spec, const Graph& body,
                                                   const MakeKernel& make) {
  auto sequence = std::make_unique<NodeSequence>(body, spec.symbols);
  TUTTI_RETURN_IF_ERROR(sequence->set_up(spec, make));
  return std::unique_ptr<Kernel>(std::move(sequence));
}

}  // namespace tutti
