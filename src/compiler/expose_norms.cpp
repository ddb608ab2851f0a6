#include "compiler/expose_norms.h"

#include <set>

#include "compiler/feature_sources.h"
#include "compiler/match.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"
#include "compiler/weight_use.h"

namespace tutti {
namespace {

// Its own features all come from products.
bool can_be_exposed(const Node& norm) {
  const int features = static_cast<int>(norm.attr_int("axis"));
  const bool is_last = features + 1 == static_cast<int>(norm.output()->rank());
  const FeatureSources sources = feature_sources({norm.input(0), features});
  return is_last && !sources.products.empty() && sources.norms.empty() && !sources.has_others &&
         norm.output()->shape().back().is_constant();
}

bool meets_behind(const Node& norm) {
  return feature_sources({norm.input(0), static_cast<int>(norm.attr_int("axis"))}).meets_in_heads;
}

// Between products and heads: of an attention, of a linear one in front of a product that sums over
// them, or of a product of features with each other (triangle multiplication) in front of such a
// one.
std::vector<const Node*> norms_about_heads(const Node& node, std::size_t input) {
  if (node.type() == "Attention" && input < 3) {
    return feature_sources({node.input(input), 3 - token_dimension(node)}).norms;
  }
  const FactorMap map = factors_of(node);
  const auto weight = weight_use(node, map);
  if (!weight || weight->sum < 0 || weight->data != input) return {};
  const int dim = dimension_of(map, map.inputs[input], weight->sum);
  if (dim < 0) return {};
  FeatureSources sources = feature_sources({node.input(input), dim});
  if (sources.has_others) return {};
  if (!sources.meets_in_heads) {
    std::erase_if(sources.norms, [](const Node* norm) { return !meets_behind(*norm); });
  }
  return sources.norms;
}

std::set<const Node*> norms_to_expose(const Graph& graph) {
  std::set<const Node*> found;
  for (const auto& node : graph.nodes()) {
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      for (const Node* norm : norms_about_heads(*node, i)) {
        if (can_be_exposed(*norm)) found.insert(norm);
      }
    }
  }
  return found;
}

class NormWriter {
 public:
  NormWriter(const Node& norm, GraphBuilder& b)
      : norm_(norm), b_(b), size_(static_cast<double>(norm.output()->shape().back().constant())) {}

  Value* write() {
    const DType dtype = norm_.output()->dtype();
    const bool is_wide = dtype == DType::kFloat32 || dtype == DType::kFloat64;
    Value* x = norm_.input(0);
    if (!is_wide) x = b_.cast(x, DType::kFloat32);
    if (x == nullptr) return nullptr;
    if (norm_.type() == "LayerNormalization") x = b_.op("Sub", {x, mean(x)});
    Value* square = mean(b_.op("Mul", {x, x}));
    if (square == nullptr) return nullptr;
    Value* root =
        b_.op("Sqrt", {b_.op("Add", {square, number(square, norm_.attr_float("epsilon"))})});
    Value* y = b_.op("Div", {x, root});
    if (!is_wide) y = b_.cast(y, dtype);
    if (norm_.input(1) != nullptr) y = b_.op("Mul", {y, norm_.input(1)});
    if (norm_.input(2) != nullptr) y = b_.op("Add", {y, norm_.input(2)});
    return y;
  }

 private:
  Value* mean(Value* x) {
    if (x == nullptr) return nullptr;
    const auto last = static_cast<std::int64_t>(x->rank()) - 1;
    Value* sum = b_.op("Reduce", {x},
                       {{"kind", std::string("sum")},
                        {"axes", std::vector<std::int64_t>{last}},
                        {"keepdims", std::int64_t{1}}});
    return sum == nullptr ? nullptr : b_.op("Mul", {sum, number(sum, 1 / size_)});
  }

  Value* number(const Value* like, double value) { return b_.scalar(like->dtype(), value); }

  const Node& norm_;
  GraphBuilder& b_;
  const double size_;
};

}  // namespace

Status expose_norms(Graph& graph, const CompileOptions& options) {
  const std::set<const Node*> norms = norms_to_expose(graph);
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& node : graph.nodes()) {
    if (!norms.contains(node.get())) continue;
    b.set_insertion_point(node.get());
    b.set_name(node->name());
    Value* y = NormWriter(*node, b).write();
    TUTTI_RETURN_IF_ERROR(b.status());
    replace_value(graph, node->output(), y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
