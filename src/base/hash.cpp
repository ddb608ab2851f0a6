#include "base/hash.h"

#include <xxhash.h>

#include <array>
#include <string_view>

namespace tutti {

std::string Hash128::to_hex() const {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t word : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text.push_back(kDigits[(word >> shift) & 15U]);
  }
  return text;
}

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() { XXH3_128bits_reset(xxh); }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_shared<State>()) {}

void Hasher::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Hasher::update(std::uint64_t value) { update(std::as_bytes(std::span(&value, 1))); }

Hash128 Hasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace tutti
