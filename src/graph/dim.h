// A tensor size that may be symbolic: an integer polynomial over named sizes and opaque operations.
//
//   batch            a symbol, bound when a request arrives
//   2*h*w + 1        polynomials have one normal form, so equality is decidable
//   floordiv(h,2)    what no polynomial expresses is one opaque atom with Dim arguments
//   part(t,4,rank.cp)  size of the piece of `t` units that a rank of 4 holds
//
// Text and parse_dim are inverse; plans and the text IR store Dims as that text.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dims.h"
#include "base/status.h"

namespace tutti {

class Dim;

// Values of the symbols: sizes that a request bound, and rank coordinates such as "rank.cp".
using SymbolMap = std::map<std::string, std::int64_t, std::less<>>;

enum class DimOp { kSymbol, kFloorDiv, kMod, kMax, kMin, kPart };

// A symbol or an opaque operation; immutable and shared.
struct DimAtom {
  DimOp op = DimOp::kSymbol;
  std::string text;  // the canonical text; atoms with equal text are equal
  std::vector<Dim> args;
};
using DimAtomPtr = std::shared_ptr<const DimAtom>;

class Dim {
 public:
  Dim(std::int64_t value = 0);  // NOLINT: implicit on purpose, sizes are numbers
  static Dim symbol(std::string_view name);

  bool is_constant() const;
  // Only when is_constant().
  std::int64_t constant() const;
  bool is(std::int64_t value) const { return is_constant() && constant() == value; }
  // The name, when the Dim is one bare symbol.
  std::optional<std::string> as_symbol() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  bool operator==(const Dim& other) const;
  std::strong_ordering operator<=>(const Dim& other) const { return text_order(other); }

  // a / b when b divides a exactly as polynomials.
  friend std::optional<Dim> exact_div(const Dim& a, const Dim& b);
  // Rounded down; folds when exact or constant. b must not be 0.
  friend Dim floor_div(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);

  // The value under `symbols`. Errors: a symbol that is missing, division by 0, overflow.
  Result<std::int64_t> evaluate(const SymbolMap& symbols) const;
  // Replaces the symbols that `symbols` binds and folds what becomes constant.
  Dim substitute(const SymbolMap& symbols) const;
  void collect_symbols(std::vector<std::string>* names) const;  // appended, no duplicates

  std::size_t num_terms() const { return terms_.size(); }

  std::string to_string() const;

 private:
  // A product of atoms (sorted by text, repeated for powers) -> its coefficient, never 0.
  // The constant term has the empty product.
  struct MonomialLess {
    bool operator()(const std::vector<DimAtomPtr>& a, const std::vector<DimAtomPtr>& b) const;
  };
  using Terms = std::map<std::vector<DimAtomPtr>, std::int64_t, MonomialLess>;

  static Dim opaque(DimOp op, std::vector<Dim> args);
  friend Dim part(const Dim& units, std::int64_t ranks, const Dim& rank);
  void add_term(const std::vector<DimAtomPtr>& monomial, std::int64_t coefficient);
  std::strong_ordering text_order(const Dim& other) const;

  Terms terms_;
};

Dim ceil_div(const Dim& a, const Dim& b);

// How many of `units` rank number `rank` of `ranks` holds: pieces are contiguous, and the first
// (units mod ranks) of them have one unit more. Sizes differ by one at most; some may be 0.
Dim part(const Dim& units, std::int64_t ranks, const Dim& rank);
std::int64_t part_size(std::int64_t units, std::int64_t ranks, std::int64_t rank);
std::int64_t part_offset(std::int64_t units, std::int64_t ranks, std::int64_t rank);

// Reads what Dim::to_string writes, and any +, -, *, / (floor), parentheses and function calls over
// names, which is also what exporters put into ONNX dim_param ("2*h", "s0 // 2").
Result<Dim> parse_dim(std::string_view text);

// A tensor shape of symbolic sizes.
using Shape = std::vector<Dim>;

Dim product(const Shape& shape);  // 1 for a scalar
Shape to_shape(const Dims& dims);
std::optional<Dims> to_constant(const Shape& shape);  // when all sizes are constant
Result<Dims> evaluate(const Shape& shape, const SymbolMap& symbols);

}  // namespace tutti
