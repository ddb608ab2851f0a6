// Reads JSON (RFC 8259) front to back, as its caller asks for it: nothing is built in between, so a
// tensor of numbers costs no more memory than its elements. NaN, Infinity and -Infinity are numbers
// too, as Python's json and Triton write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"

namespace tutti::server {

// A whole number that fits is kept as one: doubles lose integers above 2^53.
using JsonNumber = std::variant<std::int64_t, std::uint64_t, double>;

// Every error is INVALID_ARGUMENT and names the byte. After an error the reader is of no more use.
class JsonReader {
 public:
  // `text` outlives the reader. Objects and arrays may lie `max_depth` deep.
  explicit JsonReader(std::string_view text, int max_depth = 100)
      : text_(text), max_depth_(max_depth) {}

  enum class Kind { kObject, kArray, kString, kNumber, kBool, kNull };
  Result<Kind> peek();  // of the value that comes next

  // The callback must read exactly one value. An object's names are distinct.
  Status read_object(const std::function<Status(const std::string& name)>& on_member);
  Status read_array(const std::function<Status()>& on_element);
  Result<std::string> read_string();
  Result<JsonNumber> read_number();
  Result<bool> read_bool();
  Status read_null();
  // Any value, checked. `raw`, where given, becomes its text.
  Status skip(std::string_view* raw = nullptr);
  Status expect_end();  // nothing but white space is left

 private:
  void skip_space();
  Status error(std::string_view expected);
  Status expect(char c);
  bool take(char c);
  bool take_word(std::string_view word);
  Status enter();
  Status read_escape(std::string* out);
  Result<std::uint32_t> read_hex4();

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int max_depth_;
};

}  // namespace tutti::server
