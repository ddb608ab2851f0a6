// 128-bit content hashes (XXH3): cache keys and file digests, not cryptography.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace tutti {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Hash128&) const = default;
  std::string to_hex() const;  // 32 lower-case digits
};

Hash128 hash_bytes(std::span<const std::byte> bytes);

// For content in several pieces; the result depends on the concatenation only.
class Hasher {
 public:
  Hasher();
  void update(std::span<const std::byte> bytes);
  void update(std::uint64_t value);
  Hash128 digest() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tutti

template <>
struct std::hash<tutti::Hash128> {
  std::size_t operator()(const tutti::Hash128& h) const noexcept { return h.low ^ (h.high * 31); }
};
