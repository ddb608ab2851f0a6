#include "fuzz/surface.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/utf8.h"

namespace tutti::fuzz {
namespace {

// A few of an input's names in full, but not all of them again and again.
constexpr std::size_t kLongestMessage = std::size_t{256} << 10;

std::vector<Surface>& registered() {
  static std::vector<Surface> all;
  return all;
}

std::string& seen() {
  static std::string errors;
  return errors;
}

// Quoted names and digits left out.
void note(std::string_view message) {
  bool is_quoted = false;
  for (const char c : message) {
    if (c == '\'') is_quoted = !is_quoted;
    if (!is_quoted && (c < '0' || c > '9')) seen().push_back(c);
  }
}

[[noreturn]] void fail(std::string_view what, std::string_view detail) {
  std::fprintf(stderr, "promise broken: %.*s: %.*s\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(detail.size()), detail.data());
  std::abort();
}

}  // namespace

const std::vector<Surface>& surfaces() { return registered(); }

Registration::Registration(const Surface& surface) { registered().push_back(surface); }

void check_error(const Status& status) {
  if (status.ok()) return;
  note(status.message());
  const std::string text = status.to_string();
  if (status.message().empty()) fail("an error has a message", text);
  if (status.code() == StatusCode::kInternal) fail("bad input is no internal error", text);
  if (!is_utf8(status.message())) fail("an error is UTF-8", text);
  if (text.size() > kLongestMessage) fail("an error is no book", text.substr(0, 1000));
}

std::string last_errors() { return std::exchange(seen(), {}); }

void require(bool holds, std::string_view promise) {
  if (!holds) fail(promise, "");
}

}  // namespace tutti::fuzz
