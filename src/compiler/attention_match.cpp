#include "compiler/attention_match.h"

#include "compiler/match.h"

namespace tutti {
namespace {

// Numbers that close a score for softmax in any float type: -inf, or a type's lowest.
constexpr double kClosed = -6e4;

Value* skip_float_cast(Value* value) {
  const Node* cast = producer_of(value, "Cast");
  if (cast == nullptr || !is_floating(cast->input(0)->dtype()) || !is_floating(value->dtype())) {
    return value;
  }
  return cast->input(0);
}

// Peels factors off: value = *scale * result.
Value* peel_scale(Value* value, double* scale) {
  for (;;) {
    if (const auto product = with_scalar(value->producer(), "Mul")) {
      *scale *= product->scalar;
      value = product->other;
    } else if (const auto quotient = with_scalar(value->producer(), "Div");
               quotient && !quotient->scalar_is_left) {
      *scale /= quotient->scalar;
      value = quotient->other;
    } else {
      return value;
    }
  }
}

// Leads down to a product through scales and casts, and through one softcap: cap * tanh(s / cap).
const Node* find_product(Value* value, double* scale, double* softcap) {
  *scale = 1;
  *softcap = 0;
  for (int step = 0; step < 6; ++step) {
    value = peel_scale(skip_float_cast(value), scale);
    if (const Node* product = producer_of(value, "MatMul")) return product;
    const Node* tanh = producer_of(value, "Tanh");
    if (tanh == nullptr || *softcap > 0 || *scale <= 0) continue;
    *softcap = *scale;  // so far; the factors below are those of s / cap
    value = tanh->input(0);
  }
  return nullptr;
}

bool swaps_last_two(const std::vector<std::int64_t>& perm) {
  const std::size_t rank = perm.size();
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  }
  return rank >= 2 && perm[rank - 1] == static_cast<std::int64_t>(rank) - 2;
}

bool split_mask(Value* scores, ScoresMatch* match, Value** unmasked) {
  *unmasked = scores;
  const Node* node = scores->producer();
  if (node == nullptr) return false;
  if (node->type() == "Where") {
    for (const std::size_t side : {std::size_t{1}, std::size_t{2}}) {
      const auto closed = scalar_of(node->input(3 - side));
      if (!closed || *closed > kClosed) continue;
      match->mask = node->input(0);
      match->mask_is_inverted = side == 2;
      *unmasked = node->input(side);
      return true;
    }
    return false;
  }
  if (node->type() == "Add") {
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      double scale = 1;
      double softcap = 0;
      const Node* product = find_product(node->input(side), &scale, &softcap);
      if (product == nullptr || node->input(side)->shape() != scores->shape()) continue;
      match->mask = node->input(1 - side);
      *unmasked = node->input(side);
      return true;
    }
    return false;
  }
  return true;
}

}  // namespace

std::optional<ScoresMatch> match_scores(Value* scores) {
  ScoresMatch match;
  Value* unmasked = nullptr;
  if (!split_mask(skip_float_cast(scores), &match, &unmasked)) return std::nullopt;
  const Node* product = find_product(unmasked, &match.scale, &match.softcap);
  if (product == nullptr) return std::nullopt;
  match.q = peel_scale(product->input(0), &match.scale);
  Value* k = peel_scale(product->input(1), &match.scale);
  const Node* transpose = producer_of(k, "Transpose");
  if (transpose != nullptr && swaps_last_two(permutation_of(*transpose))) {
    match.k = peel_scale(transpose->input(0), &match.scale);
  } else {
    match.k = k;
    match.k_is_transposed = true;
  }
  return match;
}

std::optional<HeadRepeat> match_head_repeat(Value* value, int heads) {
  HeadRepeat repeat;
  if (const Node* transpose = producer_of(value, "Transpose")) {
    const std::vector<std::int64_t> head_transpose = {0, 2, 1, 3};
    if (permutation_of(*transpose) != head_transpose) return std::nullopt;
    repeat.transpose = head_transpose;
    value = transpose->input(0);
    heads = 3 - heads;
  }
  const Node* reshape = producer_of(value, "Reshape");
  if (reshape == nullptr || value->rank() != 4) return std::nullopt;
  const Node* copy = producer_of(reshape->input(0), "Expand");
  if (copy == nullptr) copy = producer_of(reshape->input(0), "Tile");
  if (copy == nullptr || copy->output()->rank() != 5 || copy->input(0)->rank() != 5) {
    return std::nullopt;
  }
  // [.., g, 1, ..] -> [.., g, r, ..] -> [.., g*r, ..], nothing else repeated.
  const auto at = static_cast<std::size_t>(heads);
  const Shape& small = copy->input(0)->shape();
  const Shape& large = copy->output()->shape();
  for (std::size_t d = 0; d < 5; ++d) {
    if (d == at + 1 ? !small[d].is(1) : small[d] != large[d]) return std::nullopt;
  }
  repeat.grouped_shape = large;
  repeat.grouped_shape.erase(repeat.grouped_shape.begin() + heads + 1);
  Shape repeated = repeat.grouped_shape;
  repeated[at] = repeated[at] * large[at + 1];
  if (repeated != value->shape()) return std::nullopt;
  repeat.source = copy->input(0);
  repeat.repeats = large[at + 1];
  return repeat;
}

Value* build_without_repeat(GraphBuilder& b, const HeadRepeat& repeat) {
  Value* grouped = b.reshape(repeat.source, repeat.grouped_shape);
  return repeat.transpose.empty() ? grouped : b.transpose(grouped, repeat.transpose);
}

}  // namespace tutti
