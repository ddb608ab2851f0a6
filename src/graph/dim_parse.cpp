// Recursive descent over: sum = term {(+|-) term}; term = factor {(*|/|//|%) factor}.
#include <algorithm>
#include <cctype>

#include "graph/dim.h"
#include "graph/dim_limits.h"

namespace tutti {
namespace {

constexpr int kMaxDepth = 64;

class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    if (text_.size() > kMaxSizeText) {
      return invalid_argument("size '", start_of_text(), "' has ", text_.size(),
                              " characters; expected at most ", kMaxSizeText);
    }
    TUTTI_ASSIGN_OR_RETURN(Dim dim, sum());
    skip_space();
    if (position_ != text_.size()) return error("an operator or the end");
    return dim;
  }

 private:
  Status error(std::string_view expected) const {
    return invalid_argument("size '", start_of_text(), "': expected ", expected, " at character ",
                            position_);
  }

  // What messages show of it.
  std::string start_of_text() const {
    constexpr std::size_t kShown = 256;
    return str_cat(text_.substr(0, kShown), text_.size() > kShown ? "..." : "");
  }

  void skip_space() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_]))) {
      ++position_;
    }
  }

  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }

  Result<Dim> sum() {
    if (++depth_ > kMaxDepth) return error("less nesting");
    TUTTI_ASSIGN_OR_RETURN(Dim left, term());
    for (;;) {
      const bool plus = accept("+");
      if (!plus && !accept("-")) break;
      TUTTI_ASSIGN_OR_RETURN(const Dim right, term());
      left = plus ? left + right : left - right;
    }
    --depth_;
    return left;
  }

  Result<Dim> term() {
    TUTTI_ASSIGN_OR_RETURN(Dim left, factor());
    for (;;) {
      if (accept("*")) {
        TUTTI_ASSIGN_OR_RETURN(const Dim right, factor());
        if (left.num_terms() * right.num_terms() > kMaxSizeTerms) return error("fewer terms");
        left = left * right;
      } else if (accept("//") || accept("/")) {
        TUTTI_ASSIGN_OR_RETURN(const Dim right, factor());
        if (right.is(0)) return error("a divisor other than 0");
        left = floor_div(left, right);
      } else if (accept("%")) {
        TUTTI_ASSIGN_OR_RETURN(const Dim right, factor());
        if (right.is(0)) return error("a divisor other than 0");
        left = mod(left, right);
      } else {
        return left;
      }
    }
  }

  Result<Dim> factor() {
    if (++depth_ > kMaxDepth) return error("less nesting");
    Result<Dim> out = atom();
    --depth_;
    return out;
  }

  Result<Dim> atom() {
    if (accept("(")) {
      TUTTI_ASSIGN_OR_RETURN(Dim inner, sum());
      if (!accept(")")) return error("')'");
      return inner;
    }
    if (accept("-")) {
      TUTTI_ASSIGN_OR_RETURN(const Dim inner, factor());
      return Dim(0) - inner;
    }
    skip_space();
    if (position_ >= text_.size()) return error("a number or a name");
    if (std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) return number();
    return name();
  }

  Result<Dim> number() {
    std::int64_t value = 0;
    while (position_ < text_.size() &&
           std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) {
      const std::int64_t digit = text_[position_] - '0';
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, digit, &value)) {
        return error("a number below 2^63");
      }
      ++position_;
    }
    return Dim(value);
  }

  static bool is_name_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':' ||
           c == '$' || c == '@';
  }

  Result<Dim> name() {
    const std::size_t begin = position_;
    while (position_ < text_.size() && is_name_character(text_[position_])) ++position_;
    if (position_ == begin) return error("a number or a name");
    const std::string_view identifier = text_.substr(begin, position_ - begin);
    if (!accept("(")) return Dim::symbol(identifier);
    std::vector<Dim> args;
    do {
      TUTTI_ASSIGN_OR_RETURN(Dim arg, sum());
      args.push_back(std::move(arg));
    } while (accept(","));
    if (!accept(")")) return error("')'");
    return call(identifier, args);
  }

  Result<Dim> call(std::string_view function, const std::vector<Dim>& args) {
    if (args.size() == 2) {
      const bool divides = function == "floordiv" || function == "FloorDiv" || function == "mod" ||
                           function == "Mod";
      if (divides && args[1].is(0)) return error("a divisor other than 0");
      if (function == "floordiv" || function == "FloorDiv") return floor_div(args[0], args[1]);
      if (function == "mod" || function == "Mod") return mod(args[0], args[1]);
      if (function == "max" || function == "Max") return max(args[0], args[1]);
      if (function == "min" || function == "Min") return min(args[0], args[1]);
    }
    if (args.size() == 3 && function == "part" && args[1].is_constant() &&
        args[1].constant() >= 1) {
      return part(args[0], args[1].constant(), args[2]);
    }
    return error(str_cat("floordiv, mod, max, min or part, not '", function, "' with ", args.size(),
                         " arguments"));
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Dim> parse_dim(std::string_view text) { return DimParser(text).parse(); }

}  // namespace tutti
