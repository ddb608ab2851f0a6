// f32 weights and compute -> 16 bit. precision.h says what stays; a Cast goes where the two meet.
#include <algorithm>
#include <limits>
#include <map>
#include <thread>
#include <vector>

#include "base/half.h"
#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/precision.h"
#include "graph/op_def.h"

namespace tutti {
namespace {

// The largest finite number: what is finite stays so (masks are often the lowest f32).
float largest(DType dtype) { return dtype == DType::kFloat16 ? 65504.0F : 3.38953139e38F; }

template <class T>
void narrow(std::span<const float> from, float limit, T* to) {
  for (const float number : from) {
    const bool is_finite = number - number == 0;
    *to++ = T(is_finite ? std::clamp(number, -limit, limit) : number);
  }
}

Result<Tensor> narrowed(const Tensor& tensor, DType dtype) {
  TUTTI_ASSIGN_OR_RETURN(Tensor out, Tensor::allocate(dtype, tensor.dims()));
  const std::span<const float> all(tensor.data_as<float>(),
                                   static_cast<std::size_t>(tensor.element_count()));
  const auto convert = [&](std::size_t first, std::size_t count) {
    const std::span<const float> part = all.subspan(first, count);
    if (dtype == DType::kFloat16) {
      narrow(part, largest(dtype), out.mutable_data_as<Half>() + first);
    } else {
      narrow(part, largest(dtype), out.mutable_data_as<BFloat16>() + first);
    }
  };
  constexpr std::size_t kWorthAThread = std::size_t{1} << 22;
  const std::size_t threads = std::clamp<std::size_t>(
      all.size() / kWorthAThread, 1, std::max(1U, std::thread::hardware_concurrency()));
  const std::size_t step = (all.size() + threads - 1) / threads;
  std::vector<std::jthread> workers;
  for (std::size_t first = step; first < all.size(); first += step) {
    workers.emplace_back(convert, first, std::min(step, all.size() - first));
  }
  convert(0, std::min(step, all.size()));
  return out;
}

class PrecisionConverter {
 public:
  PrecisionConverter(Graph& graph, const CompileOptions& options)
      : graph_(graph),
        options_(options),
        builder_(&graph, options.registry, options.evaluator),
        full_(full_precision(graph)) {
    for (const Value* value : graph.values()) {
      if (value->dtype() == DType::kFloat32) was_f32_.insert(value);
    }
  }

  Status run() {
    convert_inputs();
    std::vector<Node*> nodes;
    for (const auto& node : graph_.nodes()) nodes.push_back(node.get());
    for (Node* node : nodes) {
      TUTTI_RETURN_IF_ERROR(convert(*node).with_context(node->describe()));
    }
    convert_outputs();
    TUTTI_RETURN_IF_ERROR(builder_.status());
    graph_.remove_dead();
    return simplify(graph_, options_);
  }

 private:
  void convert_inputs() {
    if (options_.io_precision == DType::kUndefined) return;
    for (Value* input : graph_.inputs()) {
      if (was_f32_.contains(input) && !full_.values.contains(input)) {
        input->set_type({options_.io_precision, input->shape()});
      }
    }
  }

  // What users see keeps its type, or gets the one that they asked for.
  void convert_outputs() {
    builder_.set_insertion_point(nullptr);
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      Value* output = graph_.outputs()[i];
      if (!was_f32_.contains(output) || output->is_constant()) continue;
      const bool asks =
          options_.io_precision != DType::kUndefined && !full_.values.contains(output);
      Value* result = as(output, asks ? options_.io_precision : DType::kFloat32);
      if (result == output) continue;
      if (!output->is_input()) {
        const std::string name = output->name();
        graph_.rename(output, name + ".narrow");
        graph_.rename(result, name);
      }
      graph_.set_output(i, result);
    }
  }

  Status convert(Node& node) {
    const auto& all = node.inputs();
    const bool touches_f32 =
        std::any_of(all.begin(), all.end(), [&](const Value* v) { return was_f32_.contains(v); });
    if (!touches_f32) return {};
    builder_.set_insertion_point(&node);
    builder_.set_name(node.name());
    const bool is_full = full_.nodes.contains(&node);
    // A Cast takes its operand as it comes.
    if (node.type() == "Cast") return {};
    Status status = give(node, is_full ? DType::kFloat32 : options_.precision);
    // An operator that has no 16-bit form stays what it was.
    if (!status.ok() && !is_full) status = give(node, DType::kFloat32);
    return status;
  }

  Status give(Node& node, DType dtype) {
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      Value* input = node.input(i);
      const auto origin = origin_.find(input);
      if (origin != origin_.end()) input = origin->second;
      if (was_f32_.contains(input)) node.set_input(i, as(input, dtype));
    }
    TUTTI_RETURN_IF_ERROR(builder_.status());
    TUTTI_ASSIGN_OR_RETURN(const std::vector<TensorType> types,
                           node.op().infer(node, static_cast<int>(node.outputs().size())));
    for (std::size_t i = 0; i < types.size(); ++i) node.output(i)->set_type(types[i]);
    return {};
  }

  // The value in that type; one conversion serves all nodes from the first one on.
  Value* as(Value* value, DType dtype) {
    if (value->dtype() == dtype) return value;
    Value*& converted = converted_[{value, dtype}];
    if (converted == nullptr) {
      converted =
          value->is_constant() ? convert_constant(value, dtype) : builder_.cast(value, dtype);
      if (converted != nullptr) origin_[converted] = value;
    }
    return converted;
  }

  // Takes the name, by which seeds know it.
  Value* convert_constant(Value* value, DType dtype) {
    auto tensor = narrowed(value->constant(), dtype);
    if (!tensor.ok()) {
      builder_.fail(tensor.status());
      return nullptr;
    }
    const std::string name = value->name();
    graph_.rename(value, name + ".f32");
    return graph_.add_constant(name, *std::move(tensor));
  }

  Graph& graph_;
  const CompileOptions& options_;
  GraphBuilder builder_;
  const FullPrecision full_;
  std::unordered_set<const Value*> was_f32_;
  std::map<std::pair<Value*, DType>, Value*> converted_;
  std::map<Value*, Value*> origin_;  // of what `as` made
};

}  // namespace

Status convert_precision(Graph& graph, const CompileOptions& options) {
  if (options.precision == DType::kUndefined) return {};
  return PrecisionConverter(graph, options).run();
}

}  // namespace tutti
