#include "base/dims.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Dims, CountsElementsAndRefusesOverflow) {
  EXPECT_EQ(*checked_element_count({}), 1);
  EXPECT_EQ(*checked_element_count({3, 0, 5}), 0);
  EXPECT_FALSE(checked_element_count({16, (std::int64_t{1} << 60) + 2}).ok());
  EXPECT_FALSE(checked_element_count({-1, 4}).ok());
  // A zero elsewhere does not hide a negative size.
  EXPECT_FALSE(checked_element_count({0, -1}).ok());
}

TEST(Dims, ByteSizeOverflowsBeforeElementCountDoes) {
  EXPECT_TRUE(checked_element_count({std::int64_t{1} << 61}).ok());
  EXPECT_FALSE(checked_byte_size(DType::kFloat32, {std::int64_t{1} << 61}).ok());
  EXPECT_EQ(*checked_byte_size(DType::kBFloat16, {3, 5}), 30);
}

TEST(Dims, AZeroDoesNotHideSizesThatOverflow) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_EQ(checked_element_count({kHuge, kHuge, 0}).status().message(),
            "shape [1099511627776, 1099511627776, 0] has more than 2^63 - 1 elements, zeros left "
            "aside");
  EXPECT_FALSE(checked_element_count({0, kHuge, kHuge}).ok());
  EXPECT_EQ(*checked_element_count({kHuge, 0, 1 << 20}), 0);
  EXPECT_FALSE(checked_byte_size(DType::kFloat64, {0, std::int64_t{1} << 61}).ok());
  EXPECT_EQ(*checked_byte_size(DType::kUInt8, {0, std::int64_t{1} << 61}), 0);
}

TEST(Dims, BroadcastsLikeNumPy) {
  EXPECT_EQ(*broadcast_dims({4, 1, 3}, {5, 1}), (Dims{4, 5, 3}));
  EXPECT_EQ(*broadcast_dims({}, {2}), (Dims{2}));
  EXPECT_EQ(*broadcast_dims({0, 3}, {1, 3}), (Dims{0, 3}));
  EXPECT_FALSE(broadcast_dims({2}, {3}).ok());
}

TEST(Dims, NormalisesAxes) {
  EXPECT_EQ(*normalize_axis(-1, 3), 2);
  EXPECT_EQ(normalize_axis(3, 3).status().message(), "axis 3 is outside [-3, 3)");
}

}  // namespace
}  // namespace tutti
