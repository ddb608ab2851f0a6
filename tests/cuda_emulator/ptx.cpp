#include "ptx.h"

#include <cctype>
#include <regex>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace tutti::cuda_emulator {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Reads one asm statement, from behind its "asm".
class Statement {
 public:
  Statement(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  std::string call() {
    skip_spaces();
    if (text_.substr(at_).starts_with("volatile")) at_ += 8;
    take('(');
    std::string code = literals();
    std::vector<std::string> operands;
    for (int part = 0; peek() == ':'; ++part) {
      ++at_;
      while (peek() == '"') {
        literals();  // a constraint, or a register that is lost
        if (part < 2) operands.push_back(expression());
        if (peek() == ',') ++at_;
      }
    }
    take(')');
    take(';');
    return written(code, operands);
  }
  std::size_t end() const { return at_; }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void take(char wanted) {
    if (peek() != wanted) {
      throw std::runtime_error("the emulator cannot read this asm statement: " +
                               std::string(text_.substr(at_, 60)));
    }
    ++at_;
  }
  std::string literals() {
    std::string joined;
    while (peek() == '"') {
      const std::size_t end = text_.find('"', at_ + 1);
      joined += text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    }
    return joined;
  }
  std::string expression() {
    take('(');
    const std::size_t begin = at_;
    for (int depth = 1; depth > 0; ++at_) {
      if (at_ >= text_.size()) throw std::runtime_error("an asm statement without an end");
      depth += text_[at_] == '(' ? 1 : text_[at_] == ')' ? -1 : 0;
    }
    return std::string(text_.substr(begin, at_ - begin - 1));
  }

  static std::string written(const std::string& code, const std::vector<std::string>& operands) {
    const std::size_t semicolon = code.find(';');
    if (semicolon == std::string::npos || code.find(';', semicolon + 1) != std::string::npos) {
      throw std::runtime_error("the emulator takes one PTX instruction a statement, not: " + code);
    }
    const std::size_t space = std::min(code.find(' '), semicolon);
    std::string out = "emulated::ptx_";
    for (const char c : code.substr(0, space)) out += is_word(c) ? c : '_';
    out += '(';
    for (std::size_t i = space; i < semicolon; ++i) {
      if (code[i] != '%') {
        if (std::string_view("{}[] ").find(code[i]) == std::string_view::npos) out += code[i];
        continue;
      }
      std::size_t digits = 0;
      const std::size_t number = std::stoul(code.substr(i + 1), &digits);
      out += "(" + operands.at(number) + ")";
      i += digits;
    }
    return out + ");";
  }

  std::string_view text_;
  std::size_t at_;
};

}  // namespace

std::string rewrite_for_host(const std::string& text) {
  static const std::regex kShared(
      R"(extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w ]+?)\s+(\w+)\[\];)");
  const std::string given =
      std::regex_replace(text, kShared, "$1* const $2 = ($1*)emulated::services->dynamic_shared;");
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = given.find("asm"); at != std::string::npos; at = given.find("asm", at)) {
    const bool is_token =
        (at == 0 || !is_word(given[at - 1])) && at + 3 < given.size() && !is_word(given[at + 3]);
    if (!is_token) {
      at += 3;
      continue;
    }
    Statement statement(given, at + 3);
    out += given.substr(done, at - done) + statement.call();
    done = at = statement.end();
  }
  return out + given.substr(done);
}

}  // namespace tutti::cuda_emulator
