// Shape arithmetic: pointwise operators over small tensors of sizes.
#include <cmath>

#include "ops/pointwise.h"

namespace tutti {
namespace {

using Elements = std::vector<Dim>;
using Maybe = std::optional<Dim>;

// An element as numerator / denominator, so that Floor(Div(h, 2)) over floats stays exact.
struct Ratio {
  Dim numerator;
  Dim denominator = 1;
};

std::optional<Ratio> to_ratio(double number) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::floor(number) == number && std::fabs(number) < kExact) {
    return Ratio{static_cast<std::int64_t>(number), 1};
  }
  const double inverse = std::round(1.0 / number);
  if (number > 0 && inverse < 65536 && std::fabs(inverse * number - 1.0) < 1e-7) {
    return Ratio{1, static_cast<std::int64_t>(inverse)};
  }
  return std::nullopt;
}

const Ratio& broadcast_at(const std::vector<Ratio>& ratios, std::size_t i) {
  return ratios[ratios.size() == 1 ? 0 : i];
}

std::optional<std::vector<Ratio>> ratios_of(const Value& value, int depth = 0) {
  std::vector<Ratio> out;
  if (value.symbolic()) {
    for (const Dim& element : *value.symbolic()) out.push_back({element, 1});
    return out;
  }
  if (value.is_constant() && is_floating(value.dtype()) && value.constant().element_count() <= 64) {
    for (const double number : value.constant().to_doubles()) {
      const auto ratio = to_ratio(number);
      if (!ratio) return std::nullopt;
      out.push_back(*ratio);
    }
    return out;
  }
  const Node* node = value.producer();
  const bool is_product = node != nullptr && is_floating(value.dtype()) && depth < 8 &&
                          (node->type() == "Div" || node->type() == "Mul");
  if (!is_product) return std::nullopt;
  const auto a = ratios_of(*node->input(0), depth + 1);
  const auto b = ratios_of(*node->input(1), depth + 1);
  if (!a || !b || a->empty() || b->empty()) return std::nullopt;
  const std::size_t count = std::max(a->size(), b->size());
  if ((a->size() != count && a->size() != 1) || (b->size() != count && b->size() != 1)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Ratio& x = broadcast_at(*a, i);
    const Ratio& y = broadcast_at(*b, i);
    if (node->type() == "Mul") {
      out.push_back({x.numerator * y.numerator, x.denominator * y.denominator});
    } else {
      if (y.numerator.is(0)) return std::nullopt;
      out.push_back({x.numerator * y.denominator, x.denominator * y.numerator});
    }
  }
  return out;
}

std::optional<Elements> rounded(const Value& value, bool upwards) {
  const auto ratios = ratios_of(value);
  if (!ratios) return std::nullopt;
  Elements out;
  for (const Ratio& ratio : *ratios) {
    if (ratio.denominator.is(0)) return std::nullopt;
    if (const auto exact = exact_div(ratio.numerator, ratio.denominator)) {
      out.push_back(*exact);
    } else {
      out.push_back(upwards ? ceil_div(ratio.numerator, ratio.denominator)
                            : floor_div(ratio.numerator, ratio.denominator));
    }
  }
  return out;
}

// Whether a < b, where that holds for all values of the symbols. Sizes are at least 0 and, where
// they stand alone, taken to be at least 1 (no model is compiled for empty inputs).
std::optional<bool> is_less(const Dim& a, const Dim& b) {
  const Dim difference = b - a;
  if (difference.is_constant()) return difference.constant() > 0;
  if (a.is_constant() && a.constant() < 0 && b.as_symbol()) return true;
  if (b.is_constant() && b.constant() < 1 && a.as_symbol()) return false;
  return std::nullopt;
}

std::optional<bool> is_equal(const Dim& a, const Dim& b) {
  const Dim difference = b - a;
  if (difference.is_constant()) return difference.constant() == 0;
  if (is_less(a, b).value_or(false) || is_less(b, a).value_or(false)) return false;
  return std::nullopt;
}

Maybe truth(std::optional<bool> known) {
  if (!known) return std::nullopt;
  return Dim(*known ? 1 : 0);
}

Maybe negated(std::optional<bool> known) {
  if (!known) return std::nullopt;
  return Dim(*known ? 0 : 1);
}

Maybe divide(const Dim& a, const Dim& b, bool floating) {
  if (b.is(0)) return std::nullopt;
  if (const auto exact = exact_div(a, b)) return exact;
  if (floating) return std::nullopt;
  if (a.is_constant() && b.is_constant()) return a.constant() / b.constant();  // towards zero
  if (b.is_constant() && b.constant() < 0) return std::nullopt;
  return floor_div(a, b);  // sizes are not negative
}

Maybe combine(const std::string& type, const Dim& a, const Dim& b, bool floating) {
  if (type == "Add") return a + b;
  if (type == "Sub") return a - b;
  if (type == "Mul") return a * b;
  if (type == "Div") return divide(a, b, floating);
  if (type == "Max") return max(a, b);
  if (type == "Min") return min(a, b);
  if (type == "FloorMod") return b.is(0) ? Maybe() : Maybe(mod(a, b));
  if (type == "Equal") return truth(is_equal(a, b));
  if (type == "Less") return truth(is_less(a, b));
  if (type == "Greater") return truth(is_less(b, a));
  if (type == "GreaterOrEqual") return negated(is_less(a, b));
  if (type == "LessOrEqual") return negated(is_less(b, a));
  if (!a.is_constant() || !b.is_constant()) return std::nullopt;
  const std::int64_t x = a.constant();
  const std::int64_t y = b.constant();
  if (type == "And") return Dim(x != 0 && y != 0 ? 1 : 0);
  if (type == "Or") return Dim(x != 0 || y != 0 ? 1 : 0);
  if (type == "Xor") return Dim((x != 0) != (y != 0) ? 1 : 0);
  return std::nullopt;
}

Maybe apply(const std::string& type, const Dim& a) {
  if (type == "Neg") return Dim(0) - a;
  if (type == "Floor" || type == "Ceil" || type == "Round") return a;
  if (type == "Relu") return max(a, Dim(0));
  if (!a.is_constant()) return std::nullopt;
  const std::int64_t x = a.constant();
  if (type == "Not") return Dim(x == 0 ? 1 : 0);
  if (type == "Abs") return Dim(x < 0 ? -x : x);
  if (type == "Sign") return Dim(x > 0 ? 1 : x < 0 ? -1 : 0);
  return std::nullopt;
}

std::optional<Elements> cast_elements(const Node& node) {
  const Value& input = *node.input(0);
  const DType to = node.output()->dtype();
  const bool wide =
      to == DType::kInt64 || to == DType::kInt32 || to == DType::kFloat32 || to == DType::kFloat64;
  if (!wide && to != DType::kBool) return std::nullopt;
  if (!input.symbolic()) {
    // A float quotient becomes an integer by truncation; sizes are not negative.
    if (is_floating(input.dtype()) && is_integer(to) && wide) return rounded(input, false);
    return std::nullopt;
  }
  if (wide) return input.symbolic();
  Elements out;
  for (const Dim& element : *input.symbolic()) {
    const auto zero = is_equal(element, 0);
    if (!zero) return std::nullopt;
    out.push_back(*zero ? 0 : 1);
  }
  return out;
}

std::optional<Elements> select_elements(const Node& node) {
  const auto& condition = node.input(0)->symbolic();
  const auto& yes = node.input(1)->symbolic();
  const auto& no = node.input(2)->symbolic();
  if (!condition || !yes || !no) return std::nullopt;
  const std::size_t count = std::max({condition->size(), yes->size(), no->size()});
  Elements out;
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = [&](const Elements& list) -> const Dim* {
      if (list.size() == 1) return &list[0];
      return list.size() == count ? &list[i] : nullptr;
    };
    const Dim* which = at(*condition);
    const Dim* a = at(*yes);
    const Dim* b = at(*no);
    if (which == nullptr || a == nullptr || b == nullptr) return std::nullopt;
    if (*a == *b) {
      out.push_back(*a);
    } else if (which->is_constant()) {
      out.push_back(which->constant() != 0 ? *a : *b);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

// Whether broadcasting these few elements is a matter of repeating single ones.
bool is_simple_broadcast(const Node& node) {
  for (const Value* input : node.inputs()) {
    const bool single = input->symbolic() && input->symbolic()->size() == 1;
    if (!single && input->shape() != node.output()->shape()) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Dim>> pointwise_symbolic(const Node& node) {
  const std::string& type = node.type();
  if (type == "Cast") return cast_elements(node);
  const bool rounds = type == "Floor" || type == "Ceil";
  if (rounds && !node.input(0)->symbolic()) return rounded(*node.input(0), type == "Ceil");
  if (!is_simple_broadcast(node)) return std::nullopt;
  if (type == "Where") return select_elements(node);
  const DType dtype = node.input(0)->dtype();
  const bool floating = is_floating(dtype);
  std::vector<Elements> operands;
  bool has_sizes = false;  // constants alone are the evaluator's affair
  for (const Value* input : node.inputs()) {
    if (input->symbolic()) {
      has_sizes = true;
      operands.push_back(*input->symbolic());
      continue;
    }
    // Whole float constants take part; they have no symbolic elements of their own.
    const auto ratios = floating && input->is_constant() ? ratios_of(*input) : std::nullopt;
    if (!ratios) return std::nullopt;
    Elements elements;
    for (const Ratio& ratio : *ratios) {
      if (!ratio.denominator.is(1)) return std::nullopt;
      elements.push_back(ratio.numerator);
    }
    operands.push_back(std::move(elements));
  }
  if (!has_sizes || operands.size() > 2) return std::nullopt;
  std::size_t count = 0;
  for (const Elements& operand : operands) {
    if (operand.empty()) return Elements{};
    count = std::max(count, operand.size());
  }
  Elements out;
  for (std::size_t i = 0; i < count; ++i) {
    const Dim& a = operands[0][operands[0].size() == 1 ? 0 : i];
    const Maybe element =
        operands.size() == 1
            ? apply(type, a)
            : combine(type, a, operands[1][operands[1].size() == 1 ? 0 : i], floating);
    if (!element) return std::nullopt;
    out.push_back(*element);
  }
  return out;
}

}  // namespace tutti
