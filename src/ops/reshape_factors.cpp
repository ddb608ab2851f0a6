// The layout rule of Reshape.
#include <numeric>

#include "ops/movement.h"

namespace tutti {
namespace {

// One side of the reshape: its dimensions that are not 1, and what is left of the current one.
class Side {
 public:
  Side(const Shape& shape, DimFactors* row) : shape_(shape), row_(row) { enter(0); }

  bool done() const { return at_ == shape_.size(); }
  const Dim& rest() const { return rest_; }
  std::size_t at() const { return at_; }

  // The current dimension's next factor (minor to those before), of size `size`.
  void take(int factor, const Dim& rest_after) {
    (*row_)[at_].push_back(factor);
    rest_ = rest_after;
    if (rest_.is(1)) enter(at_ + 1);
  }
  void give_whole(FactorMap* map, std::string_view prefix) {
    take(map->add(str_cat(prefix, at_), rest_, FactorRole::kWhole), Dim(1));
  }

  // Sizes of the rest of this dimension and of all that follow (1 left out).
  std::vector<Dim> remaining() const {
    std::vector<Dim> out;
    if (done()) return out;
    out.push_back(rest_);
    for (std::size_t i = at_ + 1; i < shape_.size(); ++i) {
      if (!shape_[i].is(1)) out.push_back(shape_[i]);
    }
    return out;
  }

 private:
  void enter(std::size_t i) {
    while (i < shape_.size() && shape_[i].is(1)) ++i;
    at_ = i;
    if (!done()) rest_ = shape_[i];
  }

  const Shape& shape_;
  DimFactors* row_;
  std::size_t at_ = 0;
  Dim rest_ = 1;
};

// How many dimensions of each side form the smallest group with equal products.
std::pair<std::size_t, std::size_t> smallest_group(const Side& from, const Side& to) {
  const std::vector<Dim> a = from.remaining();
  const std::vector<Dim> b = to.remaining();
  Dim product_a = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product_a = product_a * a[i];
    Dim product_b = 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      product_b = product_b * b[j];
      if (product_a == product_b) return {i + 1, j + 1};
    }
  }
  return {a.size(), b.size()};
}

// A size that divides both, other than 1, or 1.
Dim common_divisor(const Dim& a, const Dim& b) {
  if (a == b || exact_div(b, a)) return a;
  if (exact_div(a, b)) return b;
  if (a.is_constant() && b.is_constant()) return std::gcd(a.constant(), b.constant());
  return 1;
}

bool has_zero(const Shape& shape) {
  for (const Dim& dim : shape) {
    if (dim.is(0)) return true;
  }
  return false;
}

}  // namespace

FactorMap reshape_factors(const Shape& from, const Shape& to) {
  FactorMap map;
  map.inputs.emplace_back(from.size());
  map.outputs.emplace_back(to.size());
  Side in(from, &map.inputs[0]);
  Side out(to, &map.outputs[0]);
  const bool empty = has_zero(from) || has_zero(to);  // nothing to split
  while (!in.done() && !out.done()) {
    const Dim common = empty ? Dim(1) : common_divisor(in.rest(), out.rest());
    if (!common.is(1)) {
      const int factor = map.add(str_cat("f", map.factors.size()), common);
      in.take(factor, *exact_div(in.rest(), common));
      out.take(factor, *exact_div(out.rest(), common));
      continue;
    }
    auto [a, b] = smallest_group(in, out);
    for (; a > 0; --a) in.give_whole(&map, "x");
    for (; b > 0; --b) out.give_whole(&map, "y");
  }
  while (!in.done()) in.give_whole(&map, "x");
  while (!out.done()) out.give_whole(&map, "y");
  return map;
}

}  // namespace tutti
