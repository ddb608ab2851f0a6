#include "graph/text_scanner.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "graph/text_form.h"

namespace tutti {

void TextScanner::skip_space() {
  for (;;) {
    while (position_ < text_.size() &&
           std::isspace(static_cast<unsigned char>(text_[position_])) != 0) {
      ++position_;
    }
    if (text_.substr(position_, 2) != "//") return;
    position_ = std::min(text_.find('\n', position_), text_.size());
  }
}

Status TextScanner::error_at(const Status& status) {
  skip_space();
  const std::string_view before = text_.substr(0, position_);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return status.with_context(str_cat("line ", line, ", column ", position_ - line_begin + 1));
}

Status TextScanner::error(std::string_view expected) {
  return error_at(invalid_argument("expected ", expected));
}

bool TextScanner::at_end() {
  skip_space();
  return position_ == text_.size();
}

bool TextScanner::peek(std::string_view token) {
  skip_space();
  if (text_.substr(position_, token.size()) != token) return false;
  const std::size_t end = position_ + token.size();
  return !(is_bare_character(token.back()) && end < text_.size() && is_bare_character(text_[end]));
}

bool TextScanner::accept(std::string_view token) {
  if (!peek(token)) return false;
  position_ += token.size();
  return true;
}

Status TextScanner::expect(std::string_view token) {
  return accept(token) ? Status() : error(str_cat("'", token, "'"));
}

Result<std::string> TextScanner::word() {
  skip_space();
  const std::size_t begin = position_;
  while (position_ < text_.size() && is_bare_character(text_[position_])) ++position_;
  if (position_ == begin) return error("a name");
  return std::string(text_.substr(begin, position_ - begin));
}

Result<std::string> TextScanner::name() {
  skip_space();
  return text_.substr(position_, 1) == "\"" ? quoted() : word();
}

Result<std::string> TextScanner::quoted() {
  TUTTI_RETURN_IF_ERROR(expect("\""));
  std::string out;
  while (position_ < text_.size()) {
    const char c = text_[position_++];
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    const char escape = position_ < text_.size() ? text_[position_++] : '\0';
    if (escape == '"' || escape == '\\') {
      out += escape;
    } else if (escape == 'n') {
      out += '\n';
    } else if (escape == 't') {
      out += '\t';
    } else if (escape == 'x' && position_ + 2 <= text_.size()) {
      unsigned byte = 0;
      const char* begin = text_.data() + position_;
      if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2)
        return error("two hex digits");
      out += static_cast<char>(byte);
      position_ += 2;
    } else {
      return error("one of the escapes \\\" \\\\ \\n \\t \\xHH");
    }
  }
  return error("a closing '\"'");
}

std::string_view TextScanner::number() {
  skip_space();
  const std::size_t begin = position_;
  while (position_ < text_.size() &&
         (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0 ||
          text_[position_] == '+' || text_[position_] == '-' || text_[position_] == '.')) {
    ++position_;
  }
  return text_.substr(begin, position_ - begin);
}

std::string_view TextScanner::until(char end) {
  skip_space();
  const std::size_t found = text_.find(end, position_);
  if (found == std::string_view::npos) return {};
  const std::string_view out = text_.substr(position_, found + 1 - position_);
  position_ = found + 1;
  return out;
}

}  // namespace tutti
