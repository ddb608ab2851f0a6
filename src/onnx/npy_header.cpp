#include "onnx/npy_header.h"

#include <cctype>
#include <charconv>

namespace tutti {
namespace {

constexpr std::size_t kMaxRank = 32;

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<NpyHeader> parse() {
    NpyHeader header;
    bool seen[3] = {};
    TUTTI_RETURN_IF_ERROR(expect('{'));
    while (!accept('}')) {
      TUTTI_ASSIGN_OR_RETURN(const std::string key, quoted());
      TUTTI_RETURN_IF_ERROR(expect(':'));
      const int index = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (index < 0 || seen[index]) return error("the keys descr, fortran_order and shape, once");
      seen[index] = true;
      if (index == 0) {
        TUTTI_ASSIGN_OR_RETURN(header.descr, quoted());
      } else if (index == 1) {
        TUTTI_ASSIGN_OR_RETURN(header.fortran_order, boolean());
      } else {
        TUTTI_ASSIGN_OR_RETURN(header.dims, tuple());
      }
      if (!accept(',')) {
        TUTTI_RETURN_IF_ERROR(expect('}'));
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) return error("the end");
    if (!seen[0] || !seen[1] || !seen[2]) return error("the keys descr, fortran_order and shape");
    return header;
  }

 private:
  Status error(std::string_view expected) const {
    return invalid_argument("has a header that does not parse: expected ", expected,
                            " at character ", position_);
  }
  void skip_space() {
    while (position_ < text_.size() &&
           std::isspace(static_cast<unsigned char>(text_[position_])) != 0) {
      ++position_;
    }
  }
  bool accept(char c) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  Status expect(char c) { return accept(c) ? Status() : error(std::string_view(&c, 1)); }

  Result<std::string> quoted() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') TUTTI_RETURN_IF_ERROR(expect('"'));
    const std::size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) return error("a closing quote");
    std::string out(text_.substr(position_, end - position_));
    position_ = end + 1;
    return out;
  }

  Result<bool> boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(position_, word.size()) != word) continue;
      position_ += word.size();
      return word == "True";
    }
    return error("True or False");
  }

  Result<Dims> tuple() {
    Dims dims;
    TUTTI_RETURN_IF_ERROR(expect('('));
    while (!accept(')')) {
      skip_space();
      std::int64_t size = 0;
      const char* begin = text_.data() + position_;
      const auto [end, failure] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (failure != std::errc() || size < 0) return error("a size in [0, 2^63)");
      position_ += static_cast<std::size_t>(end - begin);
      if (dims.size() == kMaxRank) return error("at most 32 dimensions");
      dims.push_back(size);
      if (!accept(',')) {
        TUTTI_RETURN_IF_ERROR(expect(')'));
        break;
      }
    }
    return dims;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

Result<NpyHeader> parse_npy_header(std::string_view text) { return HeaderParser(text).parse(); }

std::string npy_header_text(const NpyHeader& header) {
  std::string dims;
  for (const std::int64_t size : header.dims) dims += str_cat(dims.empty() ? "" : " ", size, ",");
  // A tuple of one ends with a comma, of several it need not.
  if (header.dims.size() > 1) dims.pop_back();
  return str_cat("{'descr': '", header.descr,
                 "', 'fortran_order': ", header.fortran_order ? "True" : "False", ", 'shape': (",
                 dims, "), }");
}

}  // namespace tutti
