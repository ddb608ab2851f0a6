#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core_runner.h"

namespace tutti::cpu {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

// Element i of the transposed tensor, by coordinates.
Elements transposed(const Tensor& x, const Ints& perm) {
  const Dims strides = contiguous_strides(x.dims());
  const Elements in = x.to_doubles();
  Dims dims;
  for (const std::int64_t axis : perm) dims.push_back(x.dims()[static_cast<std::size_t>(axis)]);
  Elements out;
  for (std::int64_t i = 0; i < x.element_count(); ++i) {
    std::int64_t rest = i;
    std::int64_t at = 0;
    for (std::size_t d = dims.size(); d-- > 0;) {
      at += rest % dims[d] * strides[static_cast<std::size_t>(perm[d])];
      rest /= dims[d];
    }
    out.push_back(in[static_cast<std::size_t>(at)]);
  }
  return out;
}

TEST(Transpose, AgreesWithCoordinateArithmetic) {
  const struct {
    Dims dims;
    Ints perm;
  } cases[] = {
      {{3, 5}, {1, 0}},
      {{70, 45}, {1, 0}},
      {{2, 3, 4, 5}, {0, 2, 1, 3}},
      {{2, 33, 4, 40}, {0, 2, 3, 1}},
      {{4, 3, 2}, {2, 1, 0}},
      {{1, 7, 1, 3}, {3, 2, 1, 0}},
      {{6}, {0}},
      {{2, 3, 4, 5, 6}, {4, 2, 0, 3, 1}},
      {{}, {}},
      {{0, 3}, {1, 0}},
      {{300, 200}, {1, 0}},
      {{2, 3, 4, 2, 5, 2}, {0, 2, 4, 1, 3, 5}},
      {{3, 6, 4}, {1, 0, 2}},
  };
  for (const auto& c : cases) {
    for (const DType dtype : {DType::kFloat32, DType::kUInt8, DType::kFloat16, DType::kFloat64}) {
      const Tensor x = as_type(counting(c.dims), dtype == DType::kUInt8 ? DType::kInt64 : dtype);
      const CoreRun run{"Transpose", {x}, {{"perm", c.perm}}, 1, 3};
      EXPECT_THAT(elements_of(run), ElementsAreArray(transposed(x, c.perm)));
    }
  }
}

CoreRun slice(const Tensor& x, Ints axes, Shape starts, Shape ends, Ints steps) {
  return {"Slice", {x}, {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", steps}}};
}

TEST(Slice, TakesRangesWithSteps) {
  const Tensor x = counting({3, 4});
  EXPECT_THAT(elements_of(slice(x, {1}, {1}, {3}, {1})), ElementsAre(1, 2, 5, 6, 9, 10));
  EXPECT_THAT(elements_of(slice(x, {0, 1}, {0, 0}, {3, 4}, {2, 3})), ElementsAre(0, 3, 8, 11));
  // Backwards: from 3 down to 0, and -1 stands for "past the front".
  EXPECT_THAT(elements_of(slice(x, {1}, {3}, {-1}, {-1})),
              ElementsAre(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8));
  EXPECT_THAT(elements_of(slice(x, {0}, {2}, {0}, {-2})), ElementsAre(8, 9, 10, 11));
  EXPECT_TRUE(elements_of(slice(x, {0}, {2}, {2}, {1})).empty());
}

TEST(Slice, RangesOutsideAreRefused) {
  const auto result = run_core(slice(counting({3}), {0}, {1}, {5}, {1}));
  EXPECT_THAT(result.status().message(), HasSubstr("end 5 is not in [0, 3]"));
}

TEST(Concat, JoinsAlongAnyAxis) {
  const Tensor a = floats({2, 1}, {1, 2});
  const Tensor b = floats({2, 2}, {3, 4, 5, 6});
  const Tensor none = floats({2, 0}, {});
  EXPECT_THAT(elements_of({"Concat", {a, none, b}, {{"axis", std::int64_t{1}}}}),
              ElementsAre(1, 3, 4, 2, 5, 6));
  EXPECT_THAT(elements_of({"Concat", {b, b}, {{"axis", std::int64_t{0}}}}),
              ElementsAre(3, 4, 5, 6, 3, 4, 5, 6));
  const auto bad = run_core({"Concat", {a, b}, {{"axis", std::int64_t{0}}}});
  EXPECT_THAT(bad.status().message(), HasSubstr("f32[2, 2]"));
}

TEST(Split, CutsUnevenPieces) {
  const auto outputs = run_core(
      {"Split", {counting({2, 3})}, {{"axis", std::int64_t{1}}, {"sizes", Shape{1, 2}}}, 2});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_THAT((*outputs)[0].to_doubles(), ElementsAre(0, 3));
  EXPECT_THAT((*outputs)[1].to_doubles(), ElementsAre(1, 2, 4, 5));
}

CoreRun pad(std::vector<Tensor> inputs, Ints axes, Shape before, Shape after, const char* mode) {
  return {"Pad",
          std::move(inputs),
          {{"axes", axes}, {"before", before}, {"after", after}, {"mode", std::string(mode)}}};
}

TEST(Pad, SurroundsWithAConstant) {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(elements_of(pad({x}, {0, 1}, {1, 0}, {0, 1}, "constant")),
              ElementsAre(0, 0, 0, 1, 2, 0, 3, 4, 0));
  EXPECT_THAT(elements_of(pad({x, floats({}, {9})}, {1}, {1}, {0}, "constant")),
              ElementsAre(9, 1, 2, 9, 3, 4));
  EXPECT_THAT(elements_of(pad({floats({0}, {})}, {0}, {1}, {1}, "constant")), ElementsAre(0, 0));
}

TEST(Pad, MirrorsRepeatsAndWraps) {
  const Tensor x = floats({3}, {1, 2, 3});
  EXPECT_THAT(elements_of(pad({x}, {0}, {2}, {2}, "reflect")), ElementsAre(3, 2, 1, 2, 3, 2, 1));
  EXPECT_THAT(elements_of(pad({x}, {0}, {2}, {1}, "edge")), ElementsAre(1, 1, 1, 2, 3, 3));
  EXPECT_THAT(elements_of(pad({x}, {0}, {2}, {2}, "wrap")), ElementsAre(2, 3, 1, 2, 3, 1, 2));
  EXPECT_THAT(elements_of(pad({floats({2, 2}, {1, 2, 3, 4})}, {0, 1}, {1, 1}, {0, 0}, "reflect")),
              ElementsAre(4, 3, 4, 2, 1, 2, 4, 3, 4));
}

TEST(Tile, RepeatsEachDimension) {
  EXPECT_THAT(elements_of({"Tile", {floats({1, 2}, {1, 2})}, {{"repeats", Shape{2, 2}}}}),
              ElementsAre(1, 2, 1, 2, 1, 2, 1, 2));
  EXPECT_THAT(elements_of({"Tile", {floats({2, 1}, {1, 2})}, {{"repeats", Shape{2, 2}}}}),
              ElementsAre(1, 1, 2, 2, 1, 1, 2, 2));
  EXPECT_TRUE(elements_of({"Tile", {floats({2}, {1, 2})}, {{"repeats", Shape{0}}}}).empty());
}

TEST(Expand, BroadcastsToTheShape) {
  EXPECT_THAT(elements_of({"Expand", {floats({2, 1}, {1, 2})}, {{"shape", Shape{2, 2, 3}}}}),
              ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2));
}

TEST(Gather, TakesRowsAndCountsNegativeIndicesFromTheEnd) {
  const Tensor x = counting({3, 2});
  EXPECT_THAT(elements_of({"Gather", {x, ints({2}, {2, -3})}, {{"axis", std::int64_t{0}}}}),
              ElementsAre(4, 5, 0, 1));
  EXPECT_THAT(elements_of({"Gather", {x, ints({}, {1})}, {{"axis", std::int64_t{1}}}}),
              ElementsAre(1, 3, 5));
  const Tensor narrow = as_type(ints({1, 2}, {1, 0}), DType::kInt32);
  EXPECT_THAT(elements_of({"Gather", {x, narrow}, {{"axis", std::int64_t{1}}}}),
              ElementsAre(1, 0, 3, 2, 5, 4));
}

TEST(Gather, AnIndexOutOfBoundsIsAnErrorThatNamesIt) {
  const auto result =
      run_core({"Gather", {counting({3}), ints({1}, {3})}, {{"axis", std::int64_t{0}}}});
  EXPECT_THAT(result.status().message(), HasSubstr("index 3 is not in [-3, 3)"));
}

TEST(GatherElements, TakesOneElementForEachIndex) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(
      elements_of(
          {"GatherElements", {x, ints({2, 2}, {0, -1, 2, 2})}, {{"axis", std::int64_t{1}}}}),
      ElementsAre(0, 2, 5, 5));
  EXPECT_THAT(
      elements_of({"GatherElements", {x, ints({1, 2}, {1, 0})}, {{"axis", std::int64_t{0}}}}),
      ElementsAre(3, 1));
}

TEST(GatherND, FollowsTuplesOfIndices) {
  const Tensor x = counting({2, 2, 2});
  EXPECT_THAT(elements_of({"GatherND", {x, ints({2, 2}, {0, 1, 1, 0})}, {}}),
              ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(
      elements_of({"GatherND", {x, ints({2, 1}, {1, 0})}, {{"batch_dims", std::int64_t{1}}}}),
      ElementsAre(2, 3, 4, 5));
}

TEST(ScatterElements, WritesAndReduces) {
  const Tensor data = floats({1, 4}, {1, 2, 3, 4});
  const Tensor indices = ints({1, 3}, {1, -1, 1});
  const Tensor updates = floats({1, 3}, {10, 20, 30});
  const auto scatter = [&](const char* reduction) {
    return elements_of({"ScatterElements",
                        {data, indices, updates},
                        {{"axis", std::int64_t{1}}, {"reduction", std::string(reduction)}}});
  };
  EXPECT_THAT(scatter("none"), ElementsAre(1, 30, 3, 20));
  EXPECT_THAT(scatter("add"), ElementsAre(1, 42, 3, 24));
  EXPECT_THAT(scatter("mul"), ElementsAre(1, 600, 3, 80));
  EXPECT_THAT(scatter("max"), ElementsAre(1, 30, 3, 20));
  EXPECT_THAT(scatter("min"), ElementsAre(1, 2, 3, 4));
}

TEST(ScatterND, ReplacesRows) {
  EXPECT_THAT(elements_of({"ScatterND",
                           {counting({3, 2}), ints({2, 1}, {2, 0}), floats({2, 2}, {9, 8, 7, 6})},
                           {}}),
              ElementsAre(7, 6, 2, 3, 9, 8));
  const auto bad =
      run_core({"ScatterND", {counting({3}), ints({1, 1}, {7}), floats({1}, {0})}, {}});
  EXPECT_THAT(bad.status().message(), HasSubstr("index 7 is not in [-3, 3)"));
}

TEST(Generate, SizesFillAndIota) {
  EXPECT_THAT(elements_of({"Sizes", {}, {{"values", Shape{3, 4}}}}), ElementsAre(3, 4));
  EXPECT_THAT(elements_of({"Fill", {floats({}, {2.5F})}, {{"shape", Shape{2, 2}}}}),
              ElementsAre(2.5, 2.5, 2.5, 2.5));
  EXPECT_THAT(elements_of({"Iota", {ints({}, {5}), ints({}, {-2})}, {{"size", Shape{3}}}}),
              ElementsAre(5, 3, 1));
  EXPECT_TRUE(elements_of({"Fill", {floats({}, {1})}, {{"shape", Shape{2, 0}}}}).empty());
}

TEST(CumSum, RunsForwardsBackwardsAndExclusive) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto scan = [&](std::int64_t axis, std::int64_t exclusive, std::int64_t reverse) {
    return elements_of(
        {"CumSum", {x}, {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}}});
  };
  EXPECT_THAT(scan(1, 0, 0), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(scan(1, 1, 0), ElementsAre(0, 1, 3, 0, 4, 9));
  EXPECT_THAT(scan(1, 0, 1), ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(scan(1, 1, 1), ElementsAre(5, 3, 0, 11, 6, 0));
  EXPECT_THAT(scan(0, 0, 0), ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(scan(0, 1, 1), ElementsAre(4, 5, 6, 0, 0, 0));
}

TEST(Trilu, KeepsATriangle) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto keep = [&](std::int64_t upper, std::int64_t k) {
    return elements_of({"Trilu", {x}, {{"upper", upper}, {"k", k}}});
  };
  EXPECT_THAT(keep(1, 0), ElementsAre(1, 2, 3, 0, 5, 6));
  EXPECT_THAT(keep(0, 0), ElementsAre(1, 0, 0, 4, 5, 0));
  EXPECT_THAT(keep(1, 1), ElementsAre(0, 2, 3, 0, 0, 6));
  EXPECT_THAT(keep(0, -1), ElementsAre(0, 0, 0, 4, 0, 0));
  EXPECT_THAT(keep(1, 100), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(keep(1, -100), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(ReverseSequence, TurnsThePrefixOfEachSequence) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(elements_of({"ReverseSequence",
                           {x, ints({2}, {3, 2})},
                           {{"batch_axis", std::int64_t{0}}, {"time_axis", std::int64_t{1}}}}),
              ElementsAre(2, 1, 0, 4, 3, 5));
}

TEST(TopK, RanksValuesAndTheLowerIndexFirst) {
  const Tensor x = floats({2, 4}, {1, 7, 7, 3, -1, -5, 0, -5});
  const auto largest = run_core({"TopK", {x}, {{"axis", std::int64_t{1}}, {"k", Shape{2}}}, 2, 2});
  ASSERT_TRUE(largest.ok()) << largest.status().to_string();
  EXPECT_THAT((*largest)[0].to_doubles(), ElementsAre(7, 7, 0, -1));
  EXPECT_THAT((*largest)[1].to_ints(), ElementsAre(1, 2, 2, 0));
  const auto smallest = run_core(
      {"TopK", {x}, {{"axis", std::int64_t{0}}, {"k", Shape{1}}, {"largest", std::int64_t{0}}}, 2});
  ASSERT_TRUE(smallest.ok());
  EXPECT_THAT((*smallest)[0].to_doubles(), ElementsAre(-1, -5, 0, -5));
}

TEST(Arg, NamesTheFirstOrLastExtreme) {
  const Tensor x = floats({2, 3}, {3, 1, 3, 0, 0, -1});
  const auto arg = [&](const char* type, std::int64_t axis, std::int64_t last) {
    return elements_of({type, {x}, {{"axis", axis}, {"select_last_index", last}}});
  };
  EXPECT_THAT(arg("ArgMax", 1, 0), ElementsAre(0, 0));
  EXPECT_THAT(arg("ArgMax", 1, 1), ElementsAre(2, 1));
  EXPECT_THAT(arg("ArgMin", 1, 0), ElementsAre(1, 2));
  EXPECT_THAT(arg("ArgMin", 0, 0), ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace tutti::cpu
