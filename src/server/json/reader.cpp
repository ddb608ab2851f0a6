#include "server/json/reader.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <system_error>

#include "base/utf8.h"

namespace tutti::server {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// RFC 8259's grammar, which from_chars() does not hold to: no leading zeros, no bare point.
bool is_number(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - begin;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const std::size_t first = at;
  const std::size_t whole = digits();
  if (whole == 0 || (whole > 1 && text[first] == '0')) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

template <class T>
bool parse_whole(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Status JsonReader::error(std::string_view expected) {
  return invalid_argument("JSON at byte ", at_, ": expected ", expected);
}

void JsonReader::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
    ++at_;
  }
}

bool JsonReader::take(char c) {
  skip_space();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Status JsonReader::expect(char c) {
  if (take(c)) return Status();
  return error(str_cat("'", c, "'"));
}

bool JsonReader::take_word(std::string_view word) {
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

Result<JsonReader::Kind> JsonReader::peek() {
  skip_space();
  if (at_ >= text_.size()) return error("a value, not the end");
  switch (const char c = text_[at_]) {
    case '{': return Kind::kObject;
    case '[': return Kind::kArray;
    case '"': return Kind::kString;
    case 't':
    case 'f': return Kind::kBool;
    case 'n': return Kind::kNull;
    default:
      if (is_digit(c) || c == '-' || c == 'N' || c == 'I') return Kind::kNumber;
      return error("a value");
  }
}

Status JsonReader::enter() {
  if (++depth_ <= max_depth_) return Status();
  return invalid_argument("JSON at byte ", at_, ": nested more than ", max_depth_, " deep");
}

Status JsonReader::read_object(const std::function<Status(const std::string& name)>& on_member) {
  TUTTI_RETURN_IF_ERROR(expect('{'));
  TUTTI_RETURN_IF_ERROR(enter());
  std::set<std::string> names;
  bool is_more = !take('}');
  while (is_more) {
    skip_space();
    TUTTI_ASSIGN_OR_RETURN(std::string name, read_string());
    const auto [known, is_new] = names.insert(std::move(name));
    if (!is_new) return error("distinct names in an object");
    TUTTI_RETURN_IF_ERROR(expect(':'));
    TUTTI_RETURN_IF_ERROR(on_member(*known));
    is_more = take(',');
    if (!is_more) TUTTI_RETURN_IF_ERROR(expect('}'));
  }
  --depth_;
  return Status();
}

Status JsonReader::read_array(const std::function<Status()>& on_element) {
  TUTTI_RETURN_IF_ERROR(expect('['));
  TUTTI_RETURN_IF_ERROR(enter());
  bool is_more = !take(']');
  while (is_more) {
    TUTTI_RETURN_IF_ERROR(on_element());
    is_more = take(',');
    if (!is_more) TUTTI_RETURN_IF_ERROR(expect(']'));
  }
  --depth_;
  return Status();
}

Result<std::uint32_t> JsonReader::read_hex4() {
  std::uint32_t value = 0;
  const std::string_view digits = text_.substr(at_, 4);
  const auto [end, failed] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (failed != std::errc() || end != digits.data() + 4) return error("four hex digits after \\u");
  at_ += 4;
  return value;
}

Status JsonReader::read_escape(std::string* out) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  if (const std::size_t known = kNames.find(c); c != '\0' && known != std::string_view::npos) {
    ++at_;
    out->push_back(kBytes[known]);
    return Status();
  }
  if (c != 'u') return error("an escape that JSON has");
  ++at_;
  TUTTI_ASSIGN_OR_RETURN(std::uint32_t code, read_hex4());
  if (code >= 0xD800 && code < 0xDC00 && take_word("\\u")) {
    TUTTI_ASSIGN_OR_RETURN(const std::uint32_t low, read_hex4());
    if (low < 0xDC00 || low > 0xDFFF) return error("the second half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (code >= 0xD800 && code <= 0xDFFF) return error("a whole surrogate pair");
  append_utf8(code, out);
  return Status();
}

Result<std::string> JsonReader::read_string() {
  TUTTI_RETURN_IF_ERROR(expect('"'));
  std::string out;
  while (true) {
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' &&
           static_cast<unsigned char>(text_[end]) >= 0x20) {
      ++end;
    }
    out.append(text_.substr(at_, end - at_));
    at_ = end;
    if (at_ >= text_.size()) return error("the string's end");
    if (text_[at_] == '"') break;
    if (text_[at_] != '\\') return error("control characters to be escaped");
    ++at_;
    TUTTI_RETURN_IF_ERROR(read_escape(&out));
  }
  ++at_;
  if (!is_utf8(out)) return error("a string of UTF-8");
  return out;
}

Result<JsonNumber> JsonReader::read_number() {
  skip_space();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (take_word("NaN")) return JsonNumber(std::numeric_limits<double>::quiet_NaN());
  if (take_word("Infinity")) return JsonNumber(kInfinity);
  if (take_word("-Infinity")) return JsonNumber(-kInfinity);
  std::size_t end = at_;
  bool is_whole = true;
  for (; end < text_.size(); ++end) {
    const char c = text_[end];
    const bool is_fraction = c == '.' || c == 'e' || c == 'E' || c == '+';
    if (is_fraction) is_whole = false;
    if (!is_fraction && !is_digit(c) && c != '-') break;
  }
  const std::string_view text = text_.substr(at_, end - at_);
  if (!is_number(text)) return error("a number");
  JsonNumber number;
  std::int64_t negative = 0;
  std::uint64_t whole = 0;
  double real = 0;
  if (is_whole && parse_whole(text, &negative)) {
    number = negative;
  } else if (is_whole && parse_whole(text, &whole)) {
    number = whole;
  } else if (parse_whole(text, &real)) {
    number = real;
  } else {
    // from_chars() gives no value for what is out of range; JSON's readers round.
    number = std::strtod(std::string(text).c_str(), nullptr);
  }
  at_ = end;
  return number;
}

Result<bool> JsonReader::read_bool() {
  skip_space();
  if (take_word("true")) return true;
  if (take_word("false")) return false;
  return error("true or false");
}

Status JsonReader::read_null() {
  skip_space();
  return take_word("null") ? Status() : error("null");
}

Status JsonReader::skip(std::string_view* raw) {
  TUTTI_ASSIGN_OR_RETURN(const Kind kind, peek());
  const std::size_t begin = at_;
  Status status;
  switch (kind) {
    case Kind::kObject: status = read_object([this](const std::string&) { return skip(); }); break;
    case Kind::kArray: status = read_array([this] { return skip(); }); break;
    case Kind::kString: status = read_string().status(); break;
    case Kind::kNumber: status = read_number().status(); break;
    case Kind::kBool: status = read_bool().status(); break;
    case Kind::kNull: status = read_null(); break;
  }
  if (raw != nullptr) *raw = text_.substr(begin, at_ - begin);
  return status;
}

Status JsonReader::expect_end() {
  skip_space();
  return at_ == text_.size() ? Status() : error("the end");
}

}  // namespace tutti::server
