#include "plan/plan_seal.h"

#include <cstring>
#include <string_view>

#include "base/hash.h"

namespace tutti {
namespace {

// Field 14 (metadata_props) of 48 bytes: key (12 bytes), value (32 bytes follow).
constexpr std::string_view kPrefix = "\x72\x30\x0a\x0ctutti.digest\x12\x20";
constexpr std::size_t kDigits = 32;
constexpr std::size_t kSealSize = kPrefix.size() + kDigits;
static_assert(kPrefix.size() == 18);

}  // namespace

void seal(std::string* bytes) {
  const std::string digest = hash_bytes(std::as_bytes(std::span(*bytes))).to_hex();
  bytes->append(kPrefix);
  bytes->append(digest);
}

Result<std::span<const std::byte>> unseal(std::span<const std::byte> bytes) {
  const Status damaged = invalid_argument(
      "is no plan, or damaged or truncated: its content does not match its digest");
  if (bytes.size() < kSealSize) return damaged;
  const auto body = bytes.first(bytes.size() - kSealSize);
  const auto tail = bytes.last(kSealSize);
  const std::string expected = std::string(kPrefix) + hash_bytes(body).to_hex();
  if (std::memcmp(tail.data(), expected.data(), kSealSize) != 0) return damaged;
  return body;
}

}  // namespace tutti
