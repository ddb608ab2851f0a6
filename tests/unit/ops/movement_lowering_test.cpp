#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lowering_bench.h"
#include "ops/movement.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

const Dim t = Dim::symbol("t");

class MovementLowering : public ::testing::Test {
 protected:
  // The Slice that one range becomes, as "start:end:step -> size", or "nothing" when it is none.
  std::string slice(const Dim& size, const Dim& start, const Dim& end, std::int64_t step = 1) {
    Value* x = bench_.input(DType::kFloat32, {size});
    const auto outputs = bench_.lower("Slice", {x, bench_.sizes({start}), bench_.sizes({end}),
                                                bench_.ints({0}), bench_.ints({step})});
    if (!outputs.ok()) return outputs.status().message();
    const Value* y = (*outputs)[0];
    if (y == x) return "nothing";
    const Node& node = *y->producer();
    return str_cat(node.attr_dims("starts")[0], ":", node.attr_dims("ends")[0], ":", step, " -> ",
                   y->shape()[0]);
  }

  LoweringBench bench_;
};

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST_F(MovementLowering, SliceBoundsAreNormalised) {
  EXPECT_EQ(slice(10, 2, 5), "2:5:1 -> 3");
  EXPECT_EQ(slice(10, -3, kMax), "7:10:1 -> 3");
  EXPECT_EQ(slice(10, 0, kMax), "nothing");
  EXPECT_EQ(slice(10, 0, -1), "0:9:1 -> 9");
  EXPECT_EQ(slice(10, 8, 3), "8:8:1 -> 0");
  EXPECT_EQ(slice(10, 20, 30), "10:10:1 -> 0");
  EXPECT_EQ(slice(10, 1, 8, 3), "1:8:3 -> 3");
  EXPECT_EQ(slice(10, -1, kMin, -1), "9:-1:-1 -> 10");
  EXPECT_EQ(slice(10, kMax, -11, -3), "9:-1:-3 -> 4");
  EXPECT_EQ(slice(10, 20, 4, -2), "9:4:-2 -> 3");
}

TEST_F(MovementLowering, SliceBoundsMayBeSymbolic) {
  EXPECT_EQ(slice(t, 1, kMax), "1:t:1 -> t-1");
  EXPECT_EQ(slice(t, 0, t), "nothing");
  EXPECT_EQ(slice(t, -1, kMax), "t-1:t:1 -> 1");
  EXPECT_EQ(slice(t, 0, -1), "0:t-1:1 -> t-1");
  EXPECT_EQ(slice(512, 0, t), "0:t:1 -> t");
  EXPECT_EQ(slice(Dim(2) * t, t, kMax), "t:2*t:1 -> t");
  EXPECT_EQ(slice(Dim(2) * t, 0, Dim(0) - t), "0:t:1 -> t");
  EXPECT_EQ(slice(t, 0, 77), "0:min(77,t):1 -> min(77,t)");
}

TEST_F(MovementLowering, SqueezeAndUnsqueezeReadAxesFromBothPlaces) {
  Value* x = bench_.input(DType::kFloat32, {1, t, 1});
  EXPECT_EQ(str_cat(bench_.one("Squeeze", {x})->shape()), "[t]");
  EXPECT_EQ(str_cat(bench_.one("Squeeze", {x, bench_.ints({-1})})->shape()), "[1, t]");
  EXPECT_EQ(str_cat(bench_.one("Squeeze", {x}, {{"axes", Ints{0}}}, 11)->shape()), "[t, 1]");
  EXPECT_EQ(str_cat(bench_.one("Unsqueeze", {x, bench_.ints({0, -1})})->shape()),
            "[1, 1, t, 1, 1]");
  const auto bad = bench_.lower("Squeeze", {x, bench_.ints({1})});
  EXPECT_THAT(bad.status().message(), HasSubstr("expected size 1"));
}

TEST_F(MovementLowering, SplitTakesSizesCountsAndRemainders) {
  const auto sizes = [&](std::int64_t size, AttributeMap attributes, int count, int opset = 18) {
    Value* x = bench_.input(DType::kFloat32, {size});
    const auto outputs = bench_.lower("Split", {x}, std::move(attributes), opset, count);
    if (!outputs.ok()) return outputs.status().message();
    std::string text;
    for (const Value* output : *outputs) text += str_cat(output->shape());
    return text;
  };
  EXPECT_EQ(sizes(6, {{"num_outputs", std::int64_t{3}}}, 3), "[2][2][2]");
  EXPECT_EQ(sizes(7, {{"num_outputs", std::int64_t{3}}}, 3), "[3][3][1]");
  EXPECT_EQ(sizes(6, {}, 2, 13), "[3][3]");
  EXPECT_THAT(sizes(7, {}, 2, 13), HasSubstr("does not divide into 2"));
}

TEST_F(MovementLowering, GatherOfConsecutiveConstantsIsASlice) {
  Value* x = bench_.input(DType::kFloat32, {t, 8});
  const auto gather = [&](Value* indices, std::int64_t axis) {
    return bench_.one("Gather", {x, indices}, {{"axis", axis}});
  };
  const Value* middle = gather(bench_.ints({2, 3, 4}), 1);
  EXPECT_EQ(bench_.made_by(middle), "Slice");
  EXPECT_EQ(str_cat(middle->shape()), "[t, 3]");
  const Value* last = gather(bench_.constant(Tensor::scalar(DType::kInt64, -1)), 1);
  EXPECT_EQ(bench_.made_by(last), "Reshape");
  EXPECT_EQ(str_cat(last->shape()), "[t]");
  EXPECT_EQ(bench_.made_by(gather(bench_.ints({1, 0}), 1)), "Gather");
  EXPECT_EQ(bench_.made_by(gather(bench_.ints({0, 1, 2, 3, 4, 5, 6, 7}), 1)), "input");
  const auto bad = bench_.lower("Gather", {x, bench_.ints({8})}, {{"axis", std::int64_t{1}}});
  EXPECT_THAT(bad.status().message(), HasSubstr("index 8 is not in [-8, 8)"));
}

TEST_F(MovementLowering, ScatterOverAConstantBoxIsSlicesAndConcat) {
  Value* data = bench_.input(DType::kFloat32, {4, 8});
  Value* rows = bench_.constant(Tensor::ints(Ints{1, 2}).reshaped({2, 1}));
  const Value* y = bench_.one("ScatterND", {data, rows, bench_.input(DType::kFloat32, {2, 8})});
  EXPECT_EQ(bench_.made_by(y), "Concat");
  EXPECT_EQ(y->producer()->inputs().size(), 3U);
  // Not in order: a real scatter.
  Value* mixed = bench_.constant(Tensor::ints(Ints{2, 1}).reshaped({2, 1}));
  EXPECT_EQ(
      bench_.made_by(bench_.one("ScatterND", {data, mixed, bench_.input(DType::kFloat32, {2, 8})})),
      "ScatterND");
  // All of it: the updates themselves.
  Value* all = bench_.constant(Tensor::ints(Ints{0, 1, 2, 3}).reshaped({4, 1}));
  Value* updates = bench_.input(DType::kFloat32, {4, 8});
  EXPECT_EQ(bench_.one("ScatterND", {data, all, updates}), updates);
}

TEST_F(MovementLowering, PadReadsAxesAndCutsWhatIsNegative) {
  Value* x = bench_.input(DType::kFloat32, {4, t});
  const Value* all = bench_.one("Pad", {x, bench_.ints({1, 0, 2, 0})});
  EXPECT_EQ(str_cat(all->shape()), "[7, t]");
  const Value* some = bench_.one("Pad", {x, bench_.ints({1, 1}), nullptr, bench_.ints({-1})});
  EXPECT_EQ(str_cat(some->shape()), "[4, t+2]");
  const Value* cut = bench_.one("Pad", {x, bench_.ints({-1, 0, -2, 0})});
  EXPECT_EQ(bench_.made_by(cut), "Slice");
  EXPECT_EQ(str_cat(cut->shape()), "[1, t]");
  const auto bad = bench_.lower("Pad", {x, bench_.ints({1, 1})});
  EXPECT_THAT(bad.status().message(), HasSubstr("pads has 2 elements for 2 axes; expected 4"));
}

TEST_F(MovementLowering, DataDependentShapesNeedConstants) {
  Value* mask = bench_.constant(Tensor::ints(Ints{0, 5, 0, 7}).reshaped({2, 2}));
  const Value* hits = bench_.one("NonZero", {mask});
  EXPECT_EQ(bench_.elements(hits), "[0, 1, 1, 1]");
  const auto bad = bench_.lower("NonZero", {bench_.input(DType::kFloat32, {4})});
  EXPECT_THAT(bad.status().message(), HasSubstr("supported for constants only"));
  const auto unique = bench_.lower("Unique", {bench_.ints({3, 1, 3, 2})}, {}, 18, 4);
  ASSERT_TRUE(unique.ok()) << unique.status().to_string();
  EXPECT_EQ(bench_.elements((*unique)[0]), "[1, 2, 3]");
  EXPECT_EQ(bench_.elements((*unique)[1]), "[1, 3, 0]");
  EXPECT_EQ(bench_.elements((*unique)[2]), "[2, 0, 2, 1]");
  EXPECT_EQ(bench_.elements((*unique)[3]), "[1, 1, 2]");
}

TEST_F(MovementLowering, ReductionsReadAxesFromBothPlaces) {
  Value* x = bench_.input(DType::kFloat32, {2, t, 4});
  EXPECT_EQ(str_cat(bench_.one("ReduceMean", {x}, {{"axes", Ints{-1}}}, 17)->shape()), "[2, t, 1]");
  EXPECT_EQ(
      str_cat(bench_.one("ReduceMean", {x, bench_.ints({1})}, {{"keepdims", std::int64_t{0}}})
                  ->shape()),
      "[2, 4]");
  EXPECT_EQ(str_cat(bench_.one("ReduceMax", {x})->shape()), "[1, 1, 1]");
  EXPECT_EQ(bench_.one("ReduceSum", {x}, {{"noop_with_empty_axes", std::int64_t{1}}}), x);
}

TEST_F(MovementLowering, PointwiseFormsThatDifferFromTheCore) {
  Value* x = bench_.input(DType::kFloat32, {t});
  Value* low = bench_.constant(Tensor::scalar(DType::kFloat32, 0));
  EXPECT_EQ(bench_.made_by(bench_.one("Clip", {x, low})), "Clip");
  EXPECT_EQ(bench_.made_by(bench_.one("Clip", {x, nullptr, bench_.input(DType::kFloat32, {})})),
            "Min");
  EXPECT_EQ(bench_.one("Clip", {x}), x);
  EXPECT_EQ(bench_.one("Dropout", {x}), x);
  EXPECT_EQ(bench_.made_by(bench_.one("Sum", {x, x, x})), "Add");
  EXPECT_EQ(bench_.made_by(bench_.one("Mean", {x, x})), "Div");
  EXPECT_EQ(bench_.one("Max", {x}), x);
  EXPECT_EQ(bench_.made_by(bench_.one("Swish", {x}, {}, 24)), "Silu");
  const auto fmod = bench_.lower("Mod", {x, x});
  EXPECT_THAT(fmod.status().message(), HasSubstr("fmod = 0 with element type f32"));
  Value* power = bench_.one("Pow", {x, bench_.constant(Tensor::scalar(DType::kInt64, 2))});
  EXPECT_EQ(power->producer()->input(1)->dtype(), DType::kFloat32);
}

TEST_F(MovementLowering, TheNearestNameIsOffered) {
  EXPECT_EQ(bench_.lowerings().nearest("Transpos"), "Transpose");
  EXPECT_EQ(bench_.lowerings().nearest("GatherElement"), "GatherElements");
  EXPECT_EQ(bench_.lowerings().nearest("QuiteUnlikeAnything"), "");
}

}  // namespace
}  // namespace tutti
