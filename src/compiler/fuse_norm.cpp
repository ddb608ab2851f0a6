// Two steps: x / sqrt(mean(x^2) + epsilon) is an RMSNormalization; an RMSNormalization of
// x - mean(x) is a LayerNormalization. Scale and bias follow from the users.
#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

// Mean over the last dimensions, kept as 1s. Returns the first normalised axis.
std::optional<std::int64_t> mean_axis(const Node* node) {
  if (node == nullptr || node->type() != "Reduce" || node->attr_string("kind") != "mean") {
    return std::nullopt;
  }
  if (node->attr_int("keepdims", 1) == 0) return std::nullopt;
  const auto axes = node->attr_ints("axes");
  const auto rank = static_cast<std::int64_t>(node->input(0)->rank());
  const auto first = rank - static_cast<std::int64_t>(axes.size());
  if (axes.empty()) return std::nullopt;
  std::vector<bool> seen(axes.size(), false);
  for (const std::int64_t axis : axes) {
    if (axis < first) return std::nullopt;
    seen[static_cast<std::size_t>(axis - first)] = true;
  }
  for (const bool is_there : seen) {
    if (!is_there) return std::nullopt;
  }
  return first;
}

bool is_square_of(const Value* square, const Value* x) {
  if (const Node* mul = producer_of(square, "Mul")) return mul->input(0) == x && mul->input(1) == x;
  const Node* pow = producer_of(square, "Pow");
  return pow != nullptr && pow->input(0) == x && scalar_of(pow->input(1)) == 2.0;
}

struct RootMeanSquare {
  std::int64_t axis = 0;
  double epsilon = 0;
};

// sqrt(mean(x^2) + epsilon), given its operand under the root.
std::optional<RootMeanSquare> mean_square(const Value* sum, const Value* x) {
  double epsilon = 0;
  const Value* mean = sum;
  if (const auto add = with_scalar(sum->producer(), "Add")) {
    epsilon = add->scalar;
    mean = add->other;
  }
  const auto axis = mean_axis(mean->producer());
  if (!axis || !is_square_of(mean->producer()->input(0), x)) return std::nullopt;
  return RootMeanSquare{*axis, epsilon};
}

// 1 / sqrt(mean(x^2) + epsilon) in any spelling.
std::optional<RootMeanSquare> inverse_root(const Value* value, const Value* x) {
  const Node* node = value->producer();
  if (node == nullptr) return std::nullopt;
  if (node->type() == "Reciprocal") {
    const Node* root = producer_of(node->input(0), "Sqrt");
    return root == nullptr ? std::nullopt : mean_square(root->input(0), x);
  }
  if (node->type() == "Div" && scalar_of(node->input(0)) == 1.0) {
    const Node* root = producer_of(node->input(1), "Sqrt");
    return root == nullptr ? std::nullopt : mean_square(root->input(0), x);
  }
  if (node->type() == "Pow" && scalar_of(node->input(1)) == -0.5) {
    return mean_square(node->input(0), x);
  }
  return std::nullopt;
}

struct NormMatch {
  Value* x = nullptr;
  RootMeanSquare rms;
};

std::optional<NormMatch> match_rms(const Node& node) {
  if (node.type() == "Mul") {
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      Value* x = node.input(side);
      if (const auto rms = inverse_root(node.input(1 - side), x)) return NormMatch{x, *rms};
    }
  }
  if (node.type() == "Div") {
    Value* x = node.input(0);
    const Node* root = producer_of(node.input(1), "Sqrt");
    if (root == nullptr) return std::nullopt;
    if (const auto rms = mean_square(root->input(0), x)) return NormMatch{x, *rms};
  }
  return std::nullopt;
}

// A vector over the normalised dimensions, in the shape that norms take.
Value* norm_parameter(GraphBuilder& b, Value* value, const Value* x, std::int64_t axis) {
  const Shape normalised(x->shape().begin() + axis, x->shape().end());
  if (!value->is_constant() || value->dtype() != x->dtype()) return nullptr;
  if (value->rank() < normalised.size()) return nullptr;
  const std::size_t extra = value->rank() - normalised.size();
  for (std::size_t i = 0; i < value->rank(); ++i) {
    if (i < extra ? !value->shape()[i].is(1) : value->shape()[i] != normalised[i - extra]) {
      return nullptr;
    }
  }
  return b.reshape(value, normalised);
}

// x - mean(x) over the norm's axes.
Value* uncentered(const Node& norm) {
  const Node* sub = producer_of(norm.input(0), "Sub");
  if (sub == nullptr) return nullptr;
  const auto axis = mean_axis(sub->input(1)->producer());
  const bool is_mean_of_x = axis && sub->input(1)->producer()->input(0) == sub->input(0);
  return is_mean_of_x && *axis == norm.attr_int("axis") ? sub->input(0) : nullptr;
}

bool is_norm(const Node* node) {
  return node != nullptr &&
         (node->type() == "RMSNormalization" || node->type() == "LayerNormalization");
}

// norm(x) * w and norm(x) + b take w and b into the norm.
Value* with_parameter(GraphBuilder& b, const Graph& graph, const Node& node) {
  const bool is_scale = node.type() == "Mul";
  if (!is_scale && node.type() != "Add") return nullptr;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const Node* norm = node.input(side)->producer();
    if (!is_norm(norm) || !has_single_use(graph, norm->output())) continue;
    if (is_scale && norm->inputs().size() > 1) continue;
    if (!is_scale && (norm->type() != "LayerNormalization" || norm->inputs().size() != 2)) continue;
    Value* x = norm->input(0);
    Value* parameter = norm_parameter(b, node.input(1 - side), x, norm->attr_int("axis"));
    if (parameter == nullptr) continue;
    std::vector<Value*> inputs = norm->inputs();
    inputs.push_back(parameter);
    return b.op(norm->type(), std::move(inputs), norm->attributes());
  }
  return nullptr;
}

}  // namespace

Status fuse_norm(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    Node& node = *owned;
    b.set_insertion_point(&node);
    b.set_name(node.name());
    Value* y = nullptr;
    if (const auto match = match_rms(node)) {
      y = b.op("RMSNormalization", {match->x},
               {{"axis", match->rms.axis}, {"epsilon", match->rms.epsilon}});
      Value* x = y == nullptr ? nullptr : uncentered(*y->producer());
      if (x != nullptr) {
        y = b.op("LayerNormalization", {x},
                 {{"axis", match->rms.axis}, {"epsilon", match->rms.epsilon}});
      }
    } else if (node.inputs().size() == 2 && node.input(0) != nullptr && node.input(1) != nullptr) {
      y = with_parameter(b, graph, node);
    }
    TUTTI_RETURN_IF_ERROR(b.status());
    if (y != nullptr) replace_value(graph, node.output(), y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
