#include "backends/cpu/pointwise_program.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tutti::cpu {
namespace {

using Kind = BlockRef::Kind;

class Compiler {
 public:
  explicit Compiler(std::span<const Tensor* const> constants) : constants_(constants) {}

  void bind_input(const Value* value, std::size_t i) {
    // The same value may stand in several operand places: the first serves all.
    blocks_.try_emplace(value, BlockRef{Kind::kInput, static_cast<int>(i)});
    if (constants_[i] != nullptr && constants_[i]->element_count() == 1) {
      numbers_.emplace(value, constants_[i]->to_doubles()[0]);
    }
    widen(value->dtype());
  }

  Status bind_constant(const Value* value) {
    if (value->constant().element_count() != 1) {
      return invalid_argument("constant '", value->name(), "' of the body is ", value->type(),
                              "; expected a scalar");
    }
    const DType dtype = compute_dtype(value->dtype());
    const Tensor scalar = dtype == value->dtype()
                              ? value->constant()
                              : Tensor::scalar(dtype, value->constant().to_doubles()[0]);
    blocks_[value] = {Kind::kConstant, static_cast<int>(program_.constants.size())};
    numbers_[value] = scalar.to_doubles()[0];
    program_.constants.push_back(scalar);
    widen(dtype);
    return {};
  }

  // Loops for `node`; its result goes to `out`, or to a temporary when that is kNone.
  Status add(const Node& node, BlockRef out) {
    PointwiseStep step;
    TUTTI_ASSIGN_OR_RETURN(step.op, find_op(node));
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const auto block = blocks_.find(node.input(i));
      if (block == blocks_.end()) {
        return invalid_argument("operand '", node.input(i)->name(), "' of ", node.describe(),
                                " comes from outside the body");
      }
      step.in[i] = block->second;
    }
    // The result may replace an operand of its own type; one of another width would be overwritten
    // before it is read.
    const DType dtype = compute_dtype(node.output()->dtype());
    release_operands(node, dtype, true);
    step.out = out.kind == Kind::kNone ? BlockRef{Kind::kTemporary, take_temporary()} : out;
    release_operands(node, dtype, false);
    blocks_[node.output()] = step.out;
    widen(node.output()->dtype());
    program_.cost += step.op.cost;
    program_.steps.push_back(step);
    return {};
  }

  // An output that no step of its own wrote: a copy.
  Status add_copy(const Value* value, BlockRef out) {
    const DType dtype = compute_dtype(value->dtype());
    PointwiseStep step;
    step.op = find_cast_loop(dtype, dtype);
    step.in[0] = blocks_.at(value);
    step.out = out;
    program_.steps.push_back(step);
    program_.cost += 1;
    return {};
  }

  void count_use(const Value* value) { ++uses_[value]; }

  PointwiseProgram finish() {
    program_.cost = std::max(program_.cost, 1);
    return std::move(program_);
  }

 private:
  Result<PointwiseOp> find_op(const Node& node) const {
    const Value* first = node.input(node.type() == "Where" ? 1 : 0);
    const DType dtype = compute_dtype(first->dtype());
    PointwiseOp op;
    if (node.type() == "Cast") {
      op = find_cast_loop(node.input(0)->dtype(), node.output()->dtype());
    } else if (node.type() == "Pow") {
      const auto exponent = numbers_.find(node.input(1));
      if (exponent != numbers_.end()) op = find_power_loop(dtype, exponent->second);
    }
    if (op.loop == nullptr) op = find_arithmetic_loop(node, dtype);
    if (op.loop == nullptr) op = find_math_loop(node, dtype);
    if (op.loop == nullptr) op = find_logic_loop(node, dtype);
    if (op.loop == nullptr) {
      return unimplemented("there is no loop for ", node.type(), " over ",
                           dtype_name(first->dtype()));
    }
    return op;
  }

  int take_temporary() {
    if (!free_.empty()) {
      const int index = free_.back();
      free_.pop_back();
      return index;
    }
    return program_.temporaries++;
  }

  void release_operands(const Node& node, DType dtype, bool of_this_type) {
    for (const Value* value : node.inputs()) {
      if ((compute_dtype(value->dtype()) == dtype) != of_this_type) continue;
      const BlockRef block = blocks_.at(value);
      if (--uses_[value] == 0 && block.kind == Kind::kTemporary) free_.push_back(block.index);
    }
  }

  void widen(DType dtype) {
    program_.element_size = std::max(program_.element_size, dtype_size(compute_dtype(dtype)));
  }

  std::span<const Tensor* const> constants_;
  PointwiseProgram program_;
  std::map<const Value*, BlockRef> blocks_;
  std::map<const Value*, double> numbers_;  // single numbers, for Pow
  std::map<const Value*, int> uses_;
  std::vector<int> free_;
};

Result<PointwiseProgram> compile_region(const Graph& body,
                                        std::span<const Tensor* const> constants) {
  Compiler compiler(constants);
  for (std::size_t i = 0; i < body.inputs().size(); ++i) compiler.bind_input(body.inputs()[i], i);
  for (const Value* constant : body.constants()) {
    TUTTI_RETURN_IF_ERROR(compiler.bind_constant(constant));
  }
  std::map<const Value*, int> first_output;
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    first_output.try_emplace(body.outputs()[i], static_cast<int>(i));
  }
  for (const auto& node : body.nodes()) {
    for (const Value* input : node->inputs()) compiler.count_use(input);
  }
  for (const auto& node : body.nodes()) {
    const auto output = first_output.find(node->output());
    const BlockRef out =
        output == first_output.end() ? BlockRef{} : BlockRef{Kind::kOutput, output->second};
    TUTTI_RETURN_IF_ERROR(compiler.add(*node, out));
  }
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    const Value* value = body.outputs()[i];
    const bool written =
        value->producer() != nullptr && first_output.at(value) == static_cast<int>(i);
    if (written) continue;
    TUTTI_RETURN_IF_ERROR(compiler.add_copy(value, {Kind::kOutput, static_cast<int>(i)}));
  }
  return compiler.finish();
}

}  // namespace

Result<PointwiseProgram> compile_pointwise(const Node& node,
                                           std::span<const Tensor* const> constants) {
  if (node.type() == "Pointwise") return compile_region(*node.attr_graph("body"), constants);
  Compiler compiler(constants);
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    compiler.bind_input(node.input(i), i);
    compiler.count_use(node.input(i));
  }
  TUTTI_RETURN_IF_ERROR(compiler.add(node, {Kind::kOutput, 0}));
  return compiler.finish();
}

}  // namespace tutti::cpu
