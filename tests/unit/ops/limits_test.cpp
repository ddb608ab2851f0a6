// Sizes that nodes make of sizes: past what a tensor or a formula may have, the node is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lowering_bench.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(Limits, ANodeWhoseResultIsTooLargeIsRefused) {
  LoweringBench bench;
  Value* half = bench.input(DType::kFloat32, {(std::int64_t{1} << 39) + 1, 8});
  const auto whole = bench.lower("Concat", {half, half}, {{"axis", std::int64_t{0}}});
  EXPECT_THAT(whole.status().message(),
              HasSubstr("output 0: type f32[1099511627778, 8] has size 1099511627778; expected one "
                        "in [0, 1099511627776]"));
}

TEST(Limits, SizesThatAreSquaredAgainAndAgainAreRefusedWhereATensorGetsThem) {
  LoweringBench bench;
  Value* size = bench.sizes({Dim::symbol("n")});
  for (int i = 0; i < 60; ++i) size = bench.one("Mul", {size, size});
  const auto tensor = bench.lower("ConstantOfShape", {size});
  EXPECT_THAT(tensor.status().message(),
              HasSubstr("output 0: dimension 0 has a size whose formula"));
}

}  // namespace
}  // namespace tutti
