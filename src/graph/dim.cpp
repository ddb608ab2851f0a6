#include "graph/dim.h"

#include <algorithm>

#include "graph/dim_limits.h"

namespace tutti {
namespace {

bool same_monomial(const std::vector<DimAtomPtr>& a, const std::vector<DimAtomPtr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const DimAtomPtr& x, const DimAtomPtr& y) { return x->text == y->text; });
}

// Saturated at both ends, which keeps the lowest number (that has no negation) out of every Dim. A
// size this large fails every later check with its own message.
std::int64_t saturate(__int128 value) {
  constexpr __int128 kLimit = INT64_MAX;
  return static_cast<std::int64_t>(std::clamp(value, -kLimit, kLimit));
}

Dim too_large() { return Dim::symbol(kTooLargeSize); }

std::int64_t floor_div_int(std::int64_t a, std::int64_t b) {
  if (b == -1) return saturate(-__int128{a});
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

std::string_view op_name(DimOp op) {
  switch (op) {
    case DimOp::kSymbol: return "";
    case DimOp::kFloorDiv: return "floordiv";
    case DimOp::kMod: return "mod";
    case DimOp::kMax: return "max";
    case DimOp::kMin: return "min";
    case DimOp::kPart: return "part";
  }
  return "";
}

Result<std::int64_t> apply_op(DimOp op, const std::vector<std::int64_t>& args) {
  switch (op) {
    case DimOp::kFloorDiv:
    case DimOp::kMod: {
      if (args[1] == 0) return invalid_argument("size is divided by 0");
      const std::int64_t quotient = floor_div_int(args[0], args[1]);
      if (op == DimOp::kFloorDiv) return quotient;
      return saturate(__int128{args[0]} - __int128{quotient} * args[1]);
    }
    case DimOp::kMax: return std::max(args[0], args[1]);
    case DimOp::kMin: return std::min(args[0], args[1]);
    case DimOp::kPart: return part_size(args[0], args[1], args[2]);
    case DimOp::kSymbol: break;
  }
  return internal_error("size operation without a rule");
}

}  // namespace

bool Dim::MonomialLess::operator()(const std::vector<DimAtomPtr>& a,
                                   const std::vector<DimAtomPtr>& b) const {
  // Higher degree first, so that the constant term prints last.
  if (a.size() != b.size()) return a.size() > b.size();
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const DimAtomPtr& x, const DimAtomPtr& y) { return x->text < y->text; });
}

Dim::Dim(std::int64_t value) {
  if (value != 0) terms_.emplace(std::vector<DimAtomPtr>{}, saturate(value));
}

Dim Dim::symbol(std::string_view name) {
  auto atom = std::make_shared<DimAtom>();
  atom->text = name;
  Dim dim;
  dim.terms_.emplace(std::vector<DimAtomPtr>{std::move(atom)}, 1);
  return dim;
}

Dim Dim::opaque(DimOp op, std::vector<Dim> args) {
  auto atom = std::make_shared<DimAtom>();
  atom->op = op;
  atom->text = str_cat(op_name(op), "(");
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (i > 0) atom->text += ",";
    atom->text += args[i].to_string();
    if (atom->text.size() > kMaxSizeText) return too_large();
  }
  atom->text += ")";
  atom->args = std::move(args);
  Dim dim;
  dim.terms_.emplace(std::vector<DimAtomPtr>{std::move(atom)}, 1);
  return dim;
}

bool Dim::is_constant() const {
  return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty());
}

std::int64_t Dim::constant() const { return terms_.empty() ? 0 : terms_.begin()->second; }

std::optional<std::string> Dim::as_symbol() const {
  if (terms_.size() != 1) return std::nullopt;
  const auto& [monomial, coefficient] = *terms_.begin();
  if (coefficient != 1 || monomial.size() != 1 || monomial[0]->op != DimOp::kSymbol) {
    return std::nullopt;
  }
  return monomial[0]->text;
}

void Dim::add_term(const std::vector<DimAtomPtr>& monomial, std::int64_t coefficient) {
  const auto [it, inserted] = terms_.try_emplace(monomial, coefficient);
  if (!inserted) it->second = saturate(__int128{it->second} + coefficient);
  if (it->second == 0) terms_.erase(it);
}

Dim operator+(const Dim& a, const Dim& b) {
  Dim sum = a;
  for (const auto& [monomial, coefficient] : b.terms_) sum.add_term(monomial, coefficient);
  return sum.num_terms() > kMaxSizeTerms ? too_large() : sum;
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  Dim out;
  if (a.num_terms() * b.num_terms() > kMaxSizeTerms) return too_large();
  for (const auto& [x, cx] : a.terms_) {
    for (const auto& [y, cy] : b.terms_) {
      if (x.size() + y.size() > kMaxSizeFactors) return too_large();
      std::vector<DimAtomPtr> monomial;
      monomial.reserve(x.size() + y.size());
      std::merge(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(monomial),
                 [](const DimAtomPtr& p, const DimAtomPtr& q) { return p->text < q->text; });
      out.add_term(monomial, saturate(__int128{cx} * cy));
    }
  }
  return out;
}

bool Dim::operator==(const Dim& other) const {
  return std::equal(terms_.begin(), terms_.end(), other.terms_.begin(), other.terms_.end(),
                    [](const auto& x, const auto& y) {
                      return x.second == y.second && same_monomial(x.first, y.first);
                    });
}

std::strong_ordering Dim::text_order(const Dim& other) const {
  return to_string().compare(other.to_string()) <=> 0;
}

std::optional<Dim> exact_div(const Dim& a, const Dim& b) {
  if (b.terms_.empty()) return std::nullopt;
  if (b.terms_.size() > 1) {
    // Long division. Terms are in a graded order, so the first of a product is the product of the
    // first ones.
    constexpr int kMaxTerms = 16;  // of the quotient
    Dim first;
    first.terms_.insert(*b.terms_.begin());
    Dim quotient;
    Dim rest = a;
    for (int i = 0; i < kMaxTerms && !rest.terms_.empty(); ++i) {
      Dim leading;
      leading.terms_.insert(*rest.terms_.begin());
      const auto term = exact_div(leading, first);
      if (!term) return std::nullopt;
      quotient = quotient + *term;
      rest = rest - *term * b;
    }
    return rest.terms_.empty() ? std::optional(quotient) : std::nullopt;
  }
  const auto& [divisor, divisor_coefficient] = *b.terms_.begin();
  Dim out;
  for (const auto& [monomial, coefficient] : a.terms_) {
    if (coefficient % divisor_coefficient != 0) return std::nullopt;
    std::vector<DimAtomPtr> rest = monomial;
    for (const DimAtomPtr& atom : divisor) {
      const auto it = std::find_if(rest.begin(), rest.end(), [&](const DimAtomPtr& candidate) {
        return candidate->text == atom->text;
      });
      if (it == rest.end()) return std::nullopt;
      rest.erase(it);
    }
    out.add_term(rest, coefficient / divisor_coefficient);
  }
  return out;
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant() && b.constant() != 0) {
    return floor_div_int(a.constant(), b.constant());
  }
  if (auto quotient = exact_div(a, b)) return *quotient;
  // (c*q + r) / c with every symbolic term divisible: the quotient plus the constant's.
  if (b.is_constant() && b.constant() > 0) {
    Dim whole;
    Dim rest;
    for (const auto& [monomial, coefficient] : a.terms_) {
      if (coefficient % b.constant() == 0) {
        whole.add_term(monomial, coefficient / b.constant());
      } else {
        rest.add_term(monomial, coefficient);
      }
    }
    if (!whole.terms_.empty()) return whole + floor_div(rest, b);
  }
  return Dim::opaque(DimOp::kFloorDiv, {a, b});
}

Dim mod(const Dim& a, const Dim& b) {
  if (b.is(1)) return 0;
  if (a.is_constant() && b.is_constant() && b.constant() != 0) {
    return saturate(a.constant() -
                    __int128{floor_div_int(a.constant(), b.constant())} * b.constant());
  }
  if (exact_div(a, b)) return 0;
  return Dim::opaque(DimOp::kMod, {a, b});
}

Dim max(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::max(a.constant(), b.constant());
  return Dim::opaque(DimOp::kMax, {a, b});
}

Dim min(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::min(a.constant(), b.constant());
  return Dim::opaque(DimOp::kMin, {a, b});
}

Dim ceil_div(const Dim& a, const Dim& b) { return floor_div(a + b - Dim(1), b); }

std::int64_t part_size(std::int64_t units, std::int64_t ranks, std::int64_t rank) {
  return units / ranks + (rank < units % ranks ? 1 : 0);
}

std::int64_t part_offset(std::int64_t units, std::int64_t ranks, std::int64_t rank) {
  return rank * (units / ranks) + std::min(rank, units % ranks);
}

Dim part(const Dim& units, std::int64_t ranks, const Dim& rank) {
  if (ranks == 1) return units;
  if (auto even = exact_div(units, Dim(ranks))) return *even;
  if (units.is_constant() && rank.is_constant()) {
    return part_size(units.constant(), ranks, rank.constant());
  }
  return Dim::opaque(DimOp::kPart, {units, Dim(ranks), rank});
}

Result<std::int64_t> Dim::evaluate(const SymbolMap& symbols) const {
  std::int64_t sum = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    std::int64_t term = coefficient;
    for (const DimAtomPtr& atom : monomial) {
      std::int64_t value = 0;
      if (atom->op == DimOp::kSymbol) {
        const auto it = symbols.find(atom->text);
        if (it == symbols.end()) return invalid_argument("size '", atom->text, "' is not bound");
        value = it->second;
      } else {
        std::vector<std::int64_t> args;
        for (const Dim& arg : atom->args) {
          TUTTI_ASSIGN_OR_RETURN(const std::int64_t evaluated, arg.evaluate(symbols));
          args.push_back(evaluated);
        }
        TUTTI_ASSIGN_OR_RETURN(value, apply_op(atom->op, args));
      }
      if (__builtin_mul_overflow(term, value, &term)) {
        return invalid_argument("size ", to_string(), " is past 2^63 - 1");
      }
    }
    if (__builtin_add_overflow(sum, term, &sum)) {
      return invalid_argument("size ", to_string(), " is past 2^63 - 1");
    }
  }
  return sum;
}

Dim Dim::substitute(const SymbolMap& symbols) const {
  Dim out;
  for (const auto& [monomial, coefficient] : terms_) {
    Dim term(coefficient);
    for (const DimAtomPtr& atom : monomial) {
      if (atom->op == DimOp::kSymbol) {
        const auto it = symbols.find(atom->text);
        term = term * (it == symbols.end() ? Dim::symbol(atom->text) : Dim(it->second));
        continue;
      }
      std::vector<Dim> args;
      args.reserve(atom->args.size());
      for (const Dim& arg : atom->args) args.push_back(arg.substitute(symbols));
      switch (atom->op) {
        case DimOp::kFloorDiv: term = term * floor_div(args[0], args[1]); break;
        case DimOp::kMod: term = term * mod(args[0], args[1]); break;
        case DimOp::kMax: term = term * max(args[0], args[1]); break;
        case DimOp::kMin: term = term * min(args[0], args[1]); break;
        case DimOp::kPart: term = term * part(args[0], args[1].constant(), args[2]); break;
        case DimOp::kSymbol: break;
      }
    }
    out = out + term;
  }
  return out;
}

void Dim::collect_symbols(std::vector<std::string>* names) const {
  for (const auto& [monomial, coefficient] : terms_) {
    for (const DimAtomPtr& atom : monomial) {
      if (atom->op == DimOp::kSymbol) {
        if (std::find(names->begin(), names->end(), atom->text) == names->end()) {
          names->push_back(atom->text);
        }
      }
      for (const Dim& arg : atom->args) arg.collect_symbols(names);
    }
  }
}

std::string Dim::to_string() const {
  if (terms_.empty()) return "0";
  std::string text;
  for (const auto& [monomial, coefficient] : terms_) {
    const bool negative = coefficient < 0;
    if (text.empty()) {
      if (negative) text += "-";
    } else {
      text += negative ? "-" : "+";
    }
    const std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(coefficient)
                                             : static_cast<std::uint64_t>(coefficient);
    bool first = true;
    if (magnitude != 1 || monomial.empty()) {
      text += std::to_string(magnitude);
      first = false;
    }
    for (const DimAtomPtr& atom : monomial) {
      if (!first) text += "*";
      text += atom->text;
      first = false;
    }
  }
  return text;
}

Dim product(const Shape& shape) {
  Dim out(1);
  for (const Dim& dim : shape) out = out * dim;
  return out;
}

Shape to_shape(const Dims& dims) { return Shape(dims.begin(), dims.end()); }

std::optional<Dims> to_constant(const Shape& shape) {
  Dims dims;
  for (const Dim& dim : shape) {
    if (!dim.is_constant()) return std::nullopt;
    dims.push_back(dim.constant());
  }
  return dims;
}

Result<Dims> evaluate(const Shape& shape, const SymbolMap& symbols) {
  Dims dims;
  for (const Dim& dim : shape) {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t value, dim.evaluate(symbols));
    dims.push_back(value);
  }
  return dims;
}

}  // namespace tutti
