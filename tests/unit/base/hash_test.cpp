#include "base/hash.h"

#include <gtest/gtest.h>

#include <string_view>

namespace tutti {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Hash, PiecesHashLikeTheWhole) {
  Hasher hasher;
  hasher.update(bytes("one two "));
  hasher.update(bytes("three"));
  EXPECT_EQ(hasher.digest(), hash_bytes(bytes("one two three")));
  EXPECT_NE(hasher.digest(), hash_bytes(bytes("one two threE")));
}

TEST(Hash, EmptyInputHasThePublishedXxh3Value) {
  // XXH3_128bits of nothing, from the xxHash specification's test vectors.
  EXPECT_EQ(hash_bytes({}).to_hex(), "99aa06d3014798d86001c324468d497f");
}

}  // namespace
}  // namespace tutti
