#include "server/trace/context.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>

namespace tutti::server {
namespace {

// Lower case only, as the recommendation has it.
std::optional<std::uint8_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

bool parse_hex(std::string_view text, std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto high = hex_digit(text[2 * i]);
    const auto low = hex_digit(text[2 * i + 1]);
    if (!high || !low) return false;
    bytes[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  return true;
}

bool is_zero(std::span<const std::uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

template <class Id>
Id make_id() {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  Id id{};
  while (is_zero(id)) {
    for (std::size_t i = 0; i < id.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(id.data() + i, &word, sizeof(word));
    }
  }
  return id;
}

}  // namespace

// "00-" trace id "-" parent id "-" flags. Versions after 00 may append more behind a dash.
std::optional<TraceContext> parse_trace_context(std::string_view traceparent,
                                                std::string_view tracestate) {
  constexpr std::size_t kLength = 55;
  if (traceparent.size() < kLength) return std::nullopt;
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  TraceContext context;
  const bool is_well_formed = traceparent[2] == '-' && traceparent[35] == '-' &&
                              traceparent[52] == '-' && parse_hex(traceparent, version) &&
                              parse_hex(traceparent.substr(3), context.trace_id) &&
                              parse_hex(traceparent.substr(36), context.span_id) &&
                              parse_hex(traceparent.substr(53), flags);
  if (!is_well_formed || version[0] == 0xff) return std::nullopt;
  const bool ends_well =
      traceparent.size() == kLength || (version[0] != 0 && traceparent[kLength] == '-');
  if (!ends_well || is_zero(context.trace_id) || is_zero(context.span_id)) return std::nullopt;
  context.is_sampled = (flags[0] & 1U) != 0;
  context.state = tracestate;
  return context;
}

TraceId make_trace_id() { return make_id<TraceId>(); }
SpanId make_span_id() { return make_id<SpanId>(); }

}  // namespace tutti::server
