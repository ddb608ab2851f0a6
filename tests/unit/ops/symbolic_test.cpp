// The shape arithmetic that exporters leave behind folds to symbolic sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lowering_bench.h"
#include "ops/common.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

const Dim b = Dim::symbol("b");
const Dim h = Dim::symbol("h");
const Dim w = Dim::symbol("w");
constexpr std::int64_t kOnnxFloat = 1;
constexpr std::int64_t kOnnxInt64 = 7;

class ShapeArithmetic : public ::testing::Test {
 protected:
  Value* one(std::string_view type, std::vector<Value*> inputs, AttributeMap attributes = {}) {
    return bench_.one(type, std::move(inputs), std::move(attributes));
  }
  Value* size_of(std::size_t axis) {
    return one("Gather", {one("Shape", {x_}), bench_.constant(Tensor::scalar(
                                                  DType::kInt64, static_cast<double>(axis)))});
  }
  Value* number(double value) { return bench_.constant(Tensor::scalar(DType::kInt64, value)); }

  LoweringBench bench_;
  Value* x_ = bench_.input(DType::kFloat32, {b, 16, h, w});
};

TEST_F(ShapeArithmetic, ShapesAreKnownElementByElement) {
  EXPECT_EQ(bench_.elements(one("Shape", {x_})), "[b, 16, h, w]");
  EXPECT_EQ(bench_.elements(one("Shape", {x_}, {{"start", std::int64_t{-2}}})), "[h, w]");
  EXPECT_EQ(bench_.elements(size_of(2)), "[h]");
  EXPECT_TRUE(size_of(1)->is_constant());
  EXPECT_EQ(bench_.elements(one("Size", {x_})), "[16*b*h*w]");
}

TEST_F(ShapeArithmetic, IntegerOperatorsStaySymbolic) {
  Value* height = size_of(2);
  EXPECT_EQ(bench_.elements(one("Mul", {height, number(2)})), "[2*h]");
  EXPECT_EQ(bench_.elements(one("Add", {one("Mul", {height, number(2)}), number(1)})), "[2*h+1]");
  EXPECT_EQ(bench_.elements(one("Div", {height, number(2)})), "[floordiv(h,2)]");
  EXPECT_EQ(bench_.elements(one("Mod", {height, number(2)})), "[mod(h,2)]");
  EXPECT_EQ(bench_.elements(one("Sub", {height, height})), "[0]");
  EXPECT_EQ(bench_.elements(one("Neg", {height})), "[-h]");
  EXPECT_EQ(bench_.elements(one("Max", {height, number(1)})), "[max(h,1)]");
}

TEST_F(ShapeArithmetic, ListsAreTakenApartAndPutTogether) {
  Value* shape = one("Shape", {x_});
  Value* tail = one("Slice", {shape, bench_.ints({2}), bench_.ints({INT64_MAX})});
  EXPECT_EQ(bench_.elements(tail), "[h, w]");
  EXPECT_EQ(bench_.elements(one("ReduceProd", {tail}, {{"keepdims", std::int64_t{0}}})), "[h*w]");
  Value* joined = one("Concat", {tail, bench_.ints({-1})}, {{"axis", std::int64_t{0}}});
  EXPECT_EQ(bench_.elements(joined), "[h, w, -1]");
  EXPECT_EQ(bench_.elements(one("Unsqueeze", {size_of(3), bench_.ints({0})})), "[w]");
  const auto halves = bench_.lower("Split", {shape}, {{"num_outputs", std::int64_t{2}}}, 18, 2);
  ASSERT_TRUE(halves.ok());
  EXPECT_EQ(bench_.elements((*halves)[1]), "[h, w]");
}

TEST_F(ShapeArithmetic, FloatDetoursAreFollowed) {
  // floor(float(h) * 0.5) and ceil(float(h) / 2), as interpolation computes sizes.
  Value* as_float = one("Cast", {size_of(2)}, {{"to", kOnnxFloat}});
  Value* half = bench_.constant(Tensor::scalar(DType::kFloat32, 0.5));
  Value* two = bench_.constant(Tensor::scalar(DType::kFloat32, 2));
  EXPECT_EQ(bench_.elements(one("Floor", {one("Mul", {as_float, half})})), "[floordiv(h,2)]");
  EXPECT_EQ(bench_.elements(one("Cast", {one("Mul", {as_float, two})}, {{"to", kOnnxInt64}})),
            "[2*h]");
  EXPECT_EQ(bench_.elements(one("Cast", {one("Div", {as_float, two})}, {{"to", kOnnxInt64}})),
            "[floordiv(h,2)]");
  EXPECT_EQ(bench_.elements(one("Ceil", {one("Div", {as_float, two})})), "[floordiv(h+1,2)]");
}

TEST_F(ShapeArithmetic, ChoicesThatCanBeDecidedAre) {
  Value* shape = one("Shape", {x_});
  // Expand's idiom: where(shape == -1, 1, shape).
  Value* is_wild = one("Equal", {shape, bench_.ints({-1})});
  Value* chosen = one("Where", {is_wild, bench_.ints({1, 1, 1, 1}), shape});
  EXPECT_EQ(bench_.elements(chosen), "[b, 16, h, w]");
  EXPECT_EQ(bench_.elements(one("Greater", {size_of(2), number(-1)})), "[1]");
  EXPECT_EQ(bench_.elements(one("Equal", {size_of(2), size_of(3)})), "unknown");
}

TEST_F(ShapeArithmetic, ReshapeReadsZeroAndMinusOne) {
  const auto reshaped = [&](const Shape& target, AttributeMap attributes = {}) {
    const auto y = bench_.lower("Reshape", {x_, bench_.sizes(target)}, std::move(attributes));
    return y.ok() ? str_cat((*y)[0]->shape()) : y.status().message();
  };
  EXPECT_EQ(reshaped({0, 0, -1}), "[b, 16, h*w]");
  EXPECT_EQ(reshaped({b, 2, 8, h, -1}), "[b, 2, 8, h, w]");
  EXPECT_EQ(reshaped({-1, 16}), "[b*h*w, 16]");
  EXPECT_THAT(reshaped({-1, -1}), HasSubstr("-1 twice"));
  EXPECT_THAT(reshaped({0, 0, 0, 0, 0}), HasSubstr("copies dimension 4"));
  EXPECT_THAT(reshaped({b, 17, h, w}), HasSubstr("elements"));
  Value* fixed = bench_.input(DType::kFloat32, {0, 4});
  const Value* empty =
      bench_.one("Reshape", {fixed, bench_.ints({4, 0})}, {{"allowzero", std::int64_t{1}}});
  EXPECT_EQ(str_cat(empty->shape()), "[4, 0]");
}

TEST_F(ShapeArithmetic, AShapeThatDependsOnDataIsRefusedByName) {
  Value* target = bench_.input(DType::kInt64, {2});
  const auto y = bench_.lower("Reshape", {x_, target});
  EXPECT_THAT(y.status().message(), HasSubstr("input 1"));
  EXPECT_THAT(y.status().message(), HasSubstr("--bind NAME=FILE.npy"));
}

TEST_F(ShapeArithmetic, RangesOverSizesAreIotas) {
  Value* range = one("Range", {number(0), size_of(2), number(1)});
  EXPECT_EQ(bench_.made_by(range), "Iota");
  EXPECT_EQ(str_cat(range->shape()), "[h]");
  EXPECT_EQ(bench_.elements(one("Range", {number(7), number(0), number(-3)})), "[7, 4, 1]");
  EXPECT_EQ(str_cat(one("Range", {number(3), number(0), number(1)})->shape()), "[0]");
}

TEST_F(ShapeArithmetic, ExpandAndConstantOfShapeTakeSymbolicSizes) {
  Value* row = bench_.input(DType::kFloat32, {1, 16, 1, 1});
  EXPECT_EQ(str_cat(one("Expand", {row, one("Shape", {x_})})->shape()), "[b, 16, h, w]");
  Value* zeros = one("ConstantOfShape", {bench_.sizes({b, h})});
  EXPECT_EQ(bench_.made_by(zeros), "Fill");
  EXPECT_EQ(str_cat(zeros->shape()), "[b, h]");
}

}  // namespace
}  // namespace tutti
