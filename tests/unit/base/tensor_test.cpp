#include "base/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/half.h"

namespace tutti {
namespace {

TEST(Half, EveryBitPatternSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const float value = half_bits_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_EQ((bits >> 10) & 0x1fU, 31U);
      EXPECT_TRUE(std::isnan(half_bits_to_float(float_to_half_bits(value))));
    } else {
      ASSERT_EQ(float_to_half_bits(value), bits) << value;
    }
  }
}

TEST(Half, RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(float_to_half_bits(1.0F + 0x1p-11F), 0x3c00);      // tie: to even, down
  EXPECT_EQ(float_to_half_bits(1.0F + 3 * 0x1p-11F), 0x3c02);  // tie: to even, up
  EXPECT_EQ(float_to_half_bits(65519.0F), 0x7bff);             // largest finite
  EXPECT_EQ(float_to_half_bits(65520.0F), 0x7c00);             // rounds to infinity
  EXPECT_EQ(float_to_half_bits(0x1p-25F), 0x0000);             // tie below the subnormals
  EXPECT_EQ(float_to_half_bits(0x1.8p-25F), 0x0001);
  EXPECT_EQ(float_to_half_bits(-0.0F), 0x8000);
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(float_to_bfloat16_bits(1.0F), 0x3f80);
  EXPECT_EQ(float_to_bfloat16_bits(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(float_to_bfloat16_bits(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  const float nan = std::bit_cast<float>(0x7f800001U);
  EXPECT_TRUE(std::isnan(bfloat16_bits_to_float(float_to_bfloat16_bits(nan))));
}

TEST(Tensor, OwnsAlignedMemoryAndSharesItWhenCopied) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, {3, 5});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
  const Tensor copy = tensor;
  tensor.mutable_data_as<float>()[14] = 2.5F;
  EXPECT_EQ(copy.data_as<float>()[14], 2.5F);
}

TEST(Tensor, RefusesSizesThatDoNotFit) {
  EXPECT_EQ(Tensor::allocate(DType::kFloat32, {std::int64_t{1} << 62}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Tensor::allocate(DType::kInt8, {std::int64_t{1} << 60}).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(Tensor, ScalarsConvertToTheirElementType) {
  EXPECT_EQ(Tensor::scalar(DType::kFloat16, 1.5).to_doubles(), (std::vector<double>{1.5}));
  EXPECT_EQ(Tensor::scalar(DType::kInt32, -7).to_ints(), (std::vector<std::int64_t>{-7}));
  EXPECT_EQ(Tensor::scalar(DType::kBool, 1).to_ints(), (std::vector<std::int64_t>{1}));
}

}  // namespace
}  // namespace tutti
