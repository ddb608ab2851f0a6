// Reads the pieces that the text form of graphs consists of. Comments (`//` to the end of the line)
// count as space.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : text_(text) {}

  // "line 3, column 7: expected ..." at where the next piece begins.
  Status error(std::string_view expected);
  // The same position in front of what another component found wrong.
  Status error_at(const Status& status);

  bool at_end();
  // Takes `token` if it comes next. A token that is a word does not match the start of a longer
  // one.
  bool accept(std::string_view token);
  Status expect(std::string_view token);
  bool peek(std::string_view token);

  // A run of name characters, never empty.
  Result<std::string> word();
  // A bare or quoted name.
  Result<std::string> name();
  Result<std::string> quoted();
  // A run that may be a number: digits, letters, signs, points.
  std::string_view number();
  // Up to and including the next `end`; empty when there is none.
  std::string_view until(char end);

 private:
  void skip_space();

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace tutti
