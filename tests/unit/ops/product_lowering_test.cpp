#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lowering_bench.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(ProductLowering, AGemmOfAScalarIsAnErrorThatNamesTheInput) {
  LoweringBench bench;
  Value* matrix = bench.input(DType::kFloat32, {3, 4});
  Value* scalar = bench.input(DType::kFloat32, {});
  for (const std::int64_t transposed : {0, 1}) {
    const AttributeMap attributes = {{"transA", transposed}, {"transB", transposed}};
    const auto left = bench.lower("Gemm", {scalar, matrix}, attributes);
    EXPECT_THAT(left.status().message(), HasSubstr("input 0 is f32[]; expected a matrix"));
    const auto right = bench.lower("Gemm", {matrix, scalar}, attributes);
    EXPECT_THAT(right.status().message(), HasSubstr("input 1 is f32[]; expected a matrix"));
  }
  // As a bias, a scalar is one number for all elements.
  Value* square = bench.input(DType::kFloat32, {4, 4});
  EXPECT_EQ(bench.one("Gemm", {square, square, scalar})->shape(), Shape({4, 4}));
  const auto wide = bench.lower("Gemm", {square, square, bench.input(DType::kFloat32, {3})});
  EXPECT_FALSE(wide.ok());
}

}  // namespace
}  // namespace tutti
