#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core_runner.h"

namespace tutti::cpu {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using Ints = std::vector<std::int64_t>;

Elements reduce(const Tensor& x, const char* kind, Ints axes, int threads = 1) {
  return elements_of({"Reduce", {x}, {{"kind", std::string(kind)}, {"axes", axes}}, 1, threads});
}

// The definition, over all elements of a group.
double by_definition(const std::string& kind, const Elements& group) {
  double sum = 0;
  double squares = 0;
  double magnitudes = 0;
  double product = 1;
  double exponentials = 0;
  double most = -INFINITY;
  double least = INFINITY;
  for (const double x : group) {
    sum += x;
    squares += x * x;
    magnitudes += std::fabs(x);
    product *= x;
    exponentials += std::exp(x);
    most = std::fmax(most, x);
    least = std::fmin(least, x);
  }
  if (kind == "sum") return sum;
  if (kind == "mean") return sum / static_cast<double>(group.size());
  if (kind == "max") return most;
  if (kind == "min") return least;
  if (kind == "prod") return product;
  if (kind == "l1") return magnitudes;
  if (kind == "l2") return std::sqrt(squares);
  if (kind == "log_sum") return std::log(sum);
  if (kind == "log_sum_exp") return std::log(exponentials);
  return squares;
}

TEST(Reduce, AgreesWithTheDefinitionOverAnyAxes) {
  const Dims dims{3, 5, 7, 11};
  Tensor x = counting(dims);
  for (std::int64_t i = 0; i < x.element_count(); ++i) {
    float& element = x.mutable_data_as<float>()[i];
    element = 1.0F + 0.1F * std::sin(element);  // products stay in range, sums positive
  }
  const Dims strides = contiguous_strides(dims);
  for (const char* kind :
       {"sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum", "log_sum_exp", "sum_square"}) {
    for (int mask = 0; mask < 16; ++mask) {
      Ints axes;
      for (int d = 0; d < 4; ++d) {
        if ((mask >> d & 1) != 0) axes.push_back(d);
      }
      for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kFloat64}) {
        const Tensor typed = as_type(x, dtype);
        const Elements in = typed.to_doubles();
        std::map<std::int64_t, Elements> groups;  // by the index of the result
        for (std::size_t i = 0; i < in.size(); ++i) {
          std::int64_t key = 0;
          for (std::size_t d = 0; d < 4; ++d) {
            const std::int64_t at = static_cast<std::int64_t>(i) / strides[d] % dims[d];
            if ((mask >> d & 1) == 0) key = key * dims[d] + at;
          }
          groups[key].push_back(in[i]);
        }
        const Elements actual = reduce(typed, kind, axes, 3);
        ASSERT_EQ(actual.size(), groups.size());
        for (const auto& [key, group] : groups) {
          const double expected = by_definition(kind, group);
          const double tolerance = dtype == DType::kFloat16 ? 1e-3 : 1e-5;
          ASSERT_NEAR(actual[static_cast<std::size_t>(key)], expected,
                      tolerance * (1 + std::fabs(expected)))
              << kind << " over " << str_cat(axes) << " in " << dtype_name(dtype);
        }
      }
    }
  }
}

TEST(Reduce, EmptyGroupsGiveTheNeutralElement) {
  const Tensor x = floats({2, 0}, {});
  EXPECT_THAT(reduce(x, "sum", {1}), ElementsAre(0, 0));
  EXPECT_THAT(reduce(x, "prod", {1}), ElementsAre(1, 1));
  EXPECT_THAT(reduce(x, "max", {1}), ElementsAre(-INFINITY, -INFINITY));
  EXPECT_THAT(reduce(x, "min", {1}), ElementsAre(INFINITY, INFINITY));
  EXPECT_TRUE(std::isnan(reduce(x, "mean", {1})[0]));
  EXPECT_THAT(reduce(x, "log_sum_exp", {1}), ElementsAre(-INFINITY, -INFINITY));
  EXPECT_TRUE(reduce(x, "sum", {0}).empty());
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  EXPECT_THAT(reduce(floats({2}, {1000, 1000}), "log_sum_exp", {0}),
              ElementsAre(DoubleNear(1000.6931, 1e-3)));
  EXPECT_THAT(reduce(floats({2}, {INFINITY, 1}), "log_sum_exp", {0}), ElementsAre(INFINITY));
}

TEST(Reduce, NanReachesTheMaximum) {
  Tensor x = counting({100});
  x.mutable_data_as<float>()[37] = NAN;
  EXPECT_TRUE(std::isnan(reduce(x, "max", {0})[0]));
  EXPECT_TRUE(std::isnan(reduce(x, "min", {0})[0]));
  const Tensor column = x.reshaped({50, 2});
  EXPECT_TRUE(std::isnan(reduce(column, "max", {0})[1]));
  EXPECT_EQ(reduce(column, "max", {0})[0], 98);
}

TEST(Reduce, IntegersStayExact) {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  const auto outputs = run_core(
      {"Reduce", {ints({2}, {large, 2})}, {{"kind", std::string("sum")}, {"axes", Ints{0}}}});
  ASSERT_TRUE(outputs.ok());
  EXPECT_THAT((*outputs)[0].to_ints(), ElementsAre(large + 2));
  EXPECT_THAT(reduce(ints({3}, {-7, 2, 1}), "l1", {0}), ElementsAre(10));
  EXPECT_THAT(reduce(ints({3}, {-7, 2, 1}), "mean", {0}), ElementsAre(-1));
  EXPECT_THAT(reduce(bools({2, 2}, {true, false, false, false}), "max", {1}), ElementsAre(1, 0));
}

// A float sum of a million elements would lose four digits if it ran in one accumulator.
TEST(Reduce, LongSumsKeepTheirDigits) {
  Tensor x = *Tensor::allocate(DType::kFloat32, {1000000});
  for (std::int64_t i = 0; i < x.element_count(); ++i) x.mutable_data_as<float>()[i] = 0.1F;
  const double expected = 1.0e6 * static_cast<double>(0.1F);
  EXPECT_NEAR(reduce(x, "sum", {0})[0], expected, 1e-6 * expected);
  EXPECT_NEAR(reduce(x.reshaped({500000, 2}), "sum", {0})[0], expected / 2, 1e-6 * expected);
}

TEST(Reduce, KeepDimsDecidesTheShapeAlone) {
  const Tensor x = counting({2, 3});
  for (const std::int64_t keep : {0, 1}) {
    const auto outputs = run_core(
        {"Reduce", {x}, {{"kind", std::string("sum")}, {"axes", Ints{1}}, {"keepdims", keep}}});
    ASSERT_TRUE(outputs.ok());
    EXPECT_EQ((*outputs)[0].dims(), keep != 0 ? (Dims{2, 1}) : (Dims{2}));
    EXPECT_THAT((*outputs)[0].to_doubles(), ElementsAre(3, 12));
  }
}

}  // namespace
}  // namespace tutti::cpu
