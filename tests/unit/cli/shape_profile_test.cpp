#include "cli/shape_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Dim sym(const char* name) { return Dim::symbol(name); }

const std::vector<PlanTensor> kInputs = {
    {"x", DType::kFloat32, {sym("batch"), 4, sym("h") * 2, sym("w")}},
    {"text", DType::kFloat32, {sym("batch"), sym("words"), 8}}};

std::string error_of(const ProfileOptions& options) {
  const auto ranges = shape_profile(options, kInputs);
  EXPECT_FALSE(ranges.ok());
  return ranges.status().message();
}

TEST(ShapeProfile, NothingGivenIsNoRange) {
  const auto ranges = shape_profile({}, kInputs);
  ASSERT_TRUE(ranges.ok());
  EXPECT_TRUE(ranges->empty());
}

TEST(ShapeProfile, RangesByNameAloneAndInAList) {
  const auto ranges =
      shape_profile({{"batch=1:2:8,h=4:8:16", "words=0:77:512"}, {}, {}, {}}, kInputs);
  ASSERT_TRUE(ranges.ok()) << ranges.status().message();
  EXPECT_THAT(*ranges, ElementsAre(Pair("batch", DimRange{1, 2, 8}), Pair("h", DimRange{4, 8, 16}),
                                   Pair("words", DimRange{0, 77, 512})));
}

TEST(ShapeProfile, ShapesGiveSeveralRangesAtOnce) {
  const auto ranges = shape_profile(
      {{}, {"x:1x4x8x1"}, {"x:2x4x16x9,text:2x77x8"}, {"x:8x4x32x9", "text:8x99x8"}}, kInputs);
  ASSERT_TRUE(ranges.ok()) << ranges.status().message();
  // text has no smallest shape: its length starts at the best one.
  EXPECT_THAT(*ranges,
              ElementsAre(Pair("batch", DimRange{1, 2, 8}), Pair("h", DimRange{4, 8, 16}),
                          Pair("w", DimRange{1, 9, 9}), Pair("words", DimRange{77, 77, 99})));
}

TEST(ShapeProfile, WithoutABestShapeItIsTheLargest) {
  const auto ranges = shape_profile({{}, {"text:1x5x8"}, {}, {"text:4x6x8"}}, kInputs);
  ASSERT_TRUE(ranges.ok()) << ranges.status().message();
  EXPECT_THAT(*ranges,
              ElementsAre(Pair("batch", DimRange{1, 4, 4}), Pair("words", DimRange{5, 6, 6})));
}

TEST(ShapeProfile, ErrorsNameOptionAndText) {
  EXPECT_EQ(error_of({{"batch=1:2"}, {}, {}, {}}),
            "--profile 'batch=1:2': expected NAME=MIN:OPT:MAX, such as batch=1:2:8");
  EXPECT_EQ(error_of({{"batch=1:2:-3"}, {}, {}, {}}),
            "--profile 'batch=1:2:-3': expected NAME=MIN:OPT:MAX, such as batch=1:2:8");
  EXPECT_THAT(error_of({{"seconds=1:2:3"}, {}, {}, {}}),
              AllOf(HasSubstr("no input has a size 'seconds'"), HasSubstr("words")));
  EXPECT_THAT(error_of({{"h=1:2:3,h=1:2:3"}, {}, {}, {}}), HasSubstr("'h' has a range already"));
  EXPECT_EQ(error_of({{"h=4:2:8"}, {}, {}, {}}),
            "the range of 'h' is 4 to 8, best at 2; expected min <= opt <= max");
  EXPECT_EQ(error_of({{}, {"x"}, {}, {}}),
            "--min-shapes 'x': expected INPUT:SIZExSIZE, such as x:2x16x8");
  EXPECT_THAT(error_of({{}, {}, {}, {"y:1x2"}}),
              AllOf(HasSubstr("--max-shapes 'y:1x2'"), HasSubstr("no input 'y'")));
  EXPECT_EQ(error_of({{}, {}, {"x:1x5x8x1"}, {}}),
            "--opt-shapes: input 'x': shape [1,5,8,1] does not fit [batch,4,2*h,w] at dimension 1");
  EXPECT_THAT(error_of({{}, {"x:1x4x7x1"}, {}, {}}), HasSubstr("at dimension 2"));
  EXPECT_THAT(error_of({{}, {"x:1x4x8x1,text:2x3x8"}, {}, {}}), HasSubstr("batch is 1 elsewhere"));
  EXPECT_THAT(error_of({{"words=1:2:3"}, {"text:1x2x8"}, {}, {}}),
              HasSubstr("size 'words' has a range by --profile and one by shapes"));
}

}  // namespace
}  // namespace tutti::cli
