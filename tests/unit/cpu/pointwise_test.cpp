#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core_runner.h"

namespace tutti::cpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor ramp(std::int64_t count, double from, double to) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    tensor.mutable_data_as<float>()[i] = static_cast<float>(
        from + (to - from) * static_cast<double>(i) / static_cast<double>(count));
  }
  return tensor;
}

struct Function {
  const char* type;
  AttributeMap attributes;
  std::function<double(double)> expected;
  double from;
  double to;
};

class PointwiseFunction : public ::testing::TestWithParam<Function> {};

TEST_P(PointwiseFunction, AgreesWithTheLibraryInDouble) {
  const Function& function = GetParam();
  const Tensor x = ramp(5000, function.from, function.to);
  const Elements inputs = x.to_doubles();
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    const Tensor typed = as_type(x, dtype);
    const Elements points = typed.to_doubles();
    const Elements actual = elements_of({function.type, {typed}, function.attributes, 1, 2});
    ASSERT_EQ(actual.size(), points.size());
    const double tolerance = dtype == DType::kFloat16    ? 6e-4
                             : dtype == DType::kBFloat16 ? 5e-3
                             : dtype == DType::kFloat32  ? 1e-6
                                                         : 1e-12;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double expected = function.expected(points[i]);
      ASSERT_NEAR(actual[i], expected, tolerance * std::max(1.0, std::fabs(expected)))
          << function.type << "(" << points[i] << ") in " << dtype_name(dtype);
    }
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

INSTANTIATE_TEST_SUITE_P(
    All, PointwiseFunction,
    ::testing::Values(
        Function{"Exp", {}, [](double x) { return std::exp(x); }, -8, 8},
        Function{"Log", {}, [](double x) { return std::log(x); }, 0.01, 100},
        Function{"Tanh", {}, [](double x) { return std::tanh(x); }, -10, 10},
        Function{"Erf", {}, [](double x) { return std::erf(x); }, -5, 5},
        Function{"Sigmoid", {}, sigmoid, -30, 30}, Function{"Softplus", {}, softplus, -30, 30},
        Function{"Sin", {}, [](double x) { return std::sin(x); }, -50, 50},
        Function{"Cos", {}, [](double x) { return std::cos(x); }, -50, 50},
        Function{"Tan", {}, [](double x) { return std::tan(x); }, -1.4, 1.4},
        Function{"Asin", {}, [](double x) { return std::asin(x); }, -0.99, 0.99},
        Function{"Atanh", {}, [](double x) { return std::atanh(x); }, -0.9, 0.9},
        Function{"Acosh", {}, [](double x) { return std::acosh(x); }, 1, 9},
        Function{"Sqrt", {}, [](double x) { return std::sqrt(x); }, 0, 9},
        Function{"Reciprocal", {}, [](double x) { return 1 / x; }, 0.5, 9},
        Function{"Floor", {}, [](double x) { return std::floor(x); }, -9, 9},
        Function{"Ceil", {}, [](double x) { return std::ceil(x); }, -9, 9},
        Function{"Abs", {}, [](double x) { return std::fabs(x); }, -9, 9},
        Function{"Neg", {}, [](double x) { return -x; }, -9, 9},
        Function{"Relu", {}, [](double x) { return x < 0 ? 0 : x; }, -9, 9},
        Function{"Silu", {}, [](double x) { return x * sigmoid(x); }, -20, 20},
        Function{"Mish", {}, [](double x) { return x * std::tanh(softplus(x)); }, -20, 20},
        Function{"Gelu",
                 {},
                 [](double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); },
                 -6,
                 6},
        Function{"Gelu",
                 {{"approximate", std::string("tanh")}},
                 [](double x) {
                   return 0.5 * x *
                          (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
                 },
                 -6,
                 6},
        Function{"Elu",
                 {{"alpha", 0.5}},
                 [](double x) { return x < 0 ? 0.5 * std::expm1(x) : x; },
                 -9,
                 9},
        Function{"Celu",
                 {{"alpha", 2.0}},
                 [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; },
                 -9,
                 9},
        Function{"Selu",
                 {{"alpha", 1.5}, {"gamma", 2.0}},
                 [](double x) { return 2 * (x < 0 ? 1.5 * std::expm1(x) : x); },
                 -9,
                 9},
        Function{
            "LeakyRelu", {{"alpha", 0.125}}, [](double x) { return x < 0 ? x / 8 : x; }, -9, 9},
        Function{"HardSigmoid",
                 {{"alpha", 0.25}, {"beta", 0.5}},
                 [](double x) { return std::fmin(1, std::fmax(0, x / 4 + 0.5)); },
                 -9,
                 9},
        Function{"HardSwish",
                 {},
                 [](double x) { return x * std::fmin(1, std::fmax(0, x / 6 + 0.5)); },
                 -9,
                 9},
        Function{"Softsign", {}, [](double x) { return x / (1 + std::fabs(x)); }, -9, 9},
        Function{"Clip",
                 {{"min", -1.0}, {"max", 2.0}},
                 [](double x) { return std::fmin(2, std::fmax(-1, x)); },
                 -9,
                 9}));

TEST(Pointwise, SinOfHugeArgumentsIsReducedExactly) {
  const Tensor x = floats({2}, {1.0e8F, -3.0e7F});
  const Elements y = elements_of({"Sin", {x}, {}});
  EXPECT_NEAR(y[0], std::sin(1.0e8), 1e-6);
  EXPECT_NEAR(y[1], std::sin(-3.0e7), 1e-6);
}

TEST(Pointwise, RoundTakesTiesToEven) {
  EXPECT_THAT(elements_of({"Round", {floats({5}, {0.5F, 1.5F, 2.5F, -0.5F, -1.6F})}, {}}),
              ElementsAre(0, 2, 2, -0.0, -2));
}

TEST(Pointwise, BroadcastsBothOperands) {
  // [2, 1] + [1, 3]
  EXPECT_THAT(elements_of({"Add", {floats({2, 1}, {10, 20}), floats({3}, {1, 2, 3})}, {}}),
              ElementsAre(11, 12, 13, 21, 22, 23));
}

// Against a plain loop over coordinates, for the ways in which operands can lie.
void expect_broadcasts(const Dims& target, const std::vector<Dims>& patterns) {
  for (const Dims& a : patterns) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt64}) {
      const Tensor x = as_type(counting(a), dtype);
      const Tensor y = as_type(counting(target), dtype);
      const Elements actual = elements_of({"Sub", {x, y}, {}, 1, 3});
      const Dims shape(target.size() - a.size(), 1);
      Dims padded = shape;
      padded.insert(padded.end(), a.begin(), a.end());
      const Dims strides = contiguous_strides(padded);
      const Elements xs = x.to_doubles();
      const Elements ys = y.to_doubles();
      for (std::size_t i = 0; i < actual.size(); ++i) {
        std::int64_t rest = static_cast<std::int64_t>(i);
        std::int64_t at = 0;
        for (std::size_t d = target.size(); d-- > 0;) {
          if (padded[d] != 1) at += rest % target[d] * strides[d];
          rest /= target[d];
        }
        const double expected = xs[static_cast<std::size_t>(at)] - ys[i];
        ASSERT_NEAR(actual[i], expected, dtype == DType::kFloat16 ? std::fabs(expected) / 1024 : 0)
            << i;
      }
    }
  }
}

TEST(Pointwise, BroadcastPatternsAgreeWithCoordinateArithmetic) {
  expect_broadcasts({3, 4, 5, 70}, {{3, 4, 5, 70},
                                    {70},
                                    {1},
                                    {4, 1, 1},
                                    {3, 1, 5, 1},
                                    {3, 1, 1, 70},
                                    {1, 4, 5, 1},
                                    {3, 4, 1, 70},
                                    {5, 70},
                                    {3, 4, 5, 1},
                                    {1, 1, 1, 1},
                                    {}});
}

TEST(Pointwise, ShortRowsBroadcastToo) {
  expect_broadcasts({5, 3, 700, 2}, {{700, 1}, {5, 1, 700, 1}, {1, 2}, {5, 1, 1, 2}, {3, 1, 1}});
  expect_broadcasts({40, 50, 3}, {{50, 1}, {40, 1, 3}, {40, 1, 1}, {3}});
}

TEST(Pointwise, EmptyTensorsGiveEmptyResults) {
  EXPECT_TRUE(elements_of({"Add", {floats({0, 3}, {}), floats({3}, {1, 2, 3})}, {}}).empty());
  EXPECT_TRUE(elements_of({"Add", {floats({2, 0}, {}), floats({2, 1}, {1, 2})}, {}}).empty());
  EXPECT_TRUE(elements_of({"Exp", {floats({0}, {})}, {}}).empty());
}

TEST(Pointwise, MaxAndMinLetNanWin) {
  const Tensor a = floats({3}, {1, NAN, 3});
  const Tensor b = floats({3}, {NAN, 2, 2});
  const Elements most = elements_of({"Max", {a, b}, {}});
  EXPECT_TRUE(std::isnan(most[0]) && std::isnan(most[1]));
  EXPECT_EQ(most[2], 3);
  const Elements least = elements_of({"Min", {a, b}, {}});
  EXPECT_TRUE(std::isnan(least[0]) && std::isnan(least[1]));
  EXPECT_EQ(least[2], 2);
}

TEST(Pointwise, IntegerDivisionTruncatesAndSurvivesZeroAndTheLeastNumber) {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const auto outputs =
      run_core({"Div", {ints({4}, {-7, 7, 5, least}), ints({4}, {2, -2, 0, -1})}, {}});
  ASSERT_TRUE(outputs.ok());
  EXPECT_THAT((*outputs)[0].to_ints(), ElementsAre(-3, -3, 0, least));
}

TEST(Pointwise, FloorModHasTheSignOfTheDivisorAndFmodOfTheDividend) {
  const Tensor a = ints({4}, {-7, 7, -7, 7});
  const Tensor b = ints({4}, {3, -3, -3, 0});
  EXPECT_THAT(elements_of({"FloorMod", {a, b}, {}}), ElementsAre(2, -2, -1, 0));
  EXPECT_THAT(elements_of({"Fmod", {a, b}, {}}), ElementsAre(-1, 1, -1, 0));
  EXPECT_THAT(elements_of({"Fmod", {floats({2}, {-7.5F, 7.5F}), floats({2}, {2, -2})}, {}}),
              ElementsAre(-1.5, 1.5));
}

TEST(Pointwise, PowKnowsIntegersAndConstantExponents) {
  EXPECT_THAT(elements_of({"Pow", {ints({4}, {2, -3, 5, 2}), ints({4}, {10, 3, 0, -1})}, {}}),
              ElementsAre(1024, -27, 1, 0));
  for (const float exponent : {2.0F, 3.0F, 0.5F, -0.5F, -1.0F, 1.0F, 1.7F}) {
    CoreRun run{"Pow", {floats({2}, {4, 9}), floats({}, {exponent})}, {}};
    run.constant_inputs = true;
    const Elements y = elements_of(run);
    EXPECT_NEAR(y[0], std::pow(4.0, exponent), 1e-4 * y[0]);
    EXPECT_NEAR(y[1], std::pow(9.0, exponent), 1e-4 * y[1]);
  }
}

TEST(Pointwise, ComparisonsAndLogicGiveTruthValues) {
  const Tensor a = floats({4}, {1, 2, 3, NAN});
  const Tensor b = floats({4}, {2, 2, 2, NAN});
  EXPECT_THAT(elements_of({"Less", {a, b}, {}}), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(elements_of({"GreaterOrEqual", {a, b}, {}}), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(elements_of({"Equal", {a, b}, {}}), ElementsAre(0, 1, 0, 0));
  const Tensor p = bools({4}, {true, true, false, false});
  const Tensor q = bools({4}, {true, false, true, false});
  EXPECT_THAT(elements_of({"And", {p, q}, {}}), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(elements_of({"Xor", {p, q}, {}}), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(elements_of({"Not", {p}, {}}), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(elements_of({"Equal", {p, q}, {}}), ElementsAre(1, 0, 0, 1));
}

TEST(Pointwise, IsInfMindsTheSignsThatItIsAskedFor) {
  const Tensor x = floats({3}, {kInfinity, -kInfinity, 1});
  EXPECT_THAT(elements_of({"IsInf", {x}, {}}), ElementsAre(1, 1, 0));
  EXPECT_THAT(elements_of({"IsInf", {x}, {{"detect_negative", std::int64_t{0}}}}),
              ElementsAre(1, 0, 0));
  EXPECT_THAT(elements_of({"IsNaN", {floats({2}, {NAN, 1})}, {}}), ElementsAre(1, 0));
}

TEST(Pointwise, WhereSelectsWithABroadcastCondition) {
  EXPECT_THAT(
      elements_of(
          {"Where", {bools({2, 1}, {true, false}), floats({2}, {1, 2}), floats({}, {9})}, {}}),
      ElementsAre(1, 2, 9, 9));
}

TEST(Pointwise, ShiftsByTheWidthLeaveNothing) {
  const Tensor x = as_type(ints({3}, {1, 128, 255}), DType::kUInt8);
  const Tensor by = as_type(ints({3}, {3, 1, 8}), DType::kUInt8);
  EXPECT_THAT(elements_of({"BitShift", {x, by}, {{"direction", std::string("LEFT")}}}),
              ElementsAre(8, 0, 0));
  EXPECT_THAT(elements_of({"BitShift", {x, by}, {{"direction", std::string("RIGHT")}}}),
              ElementsAre(0, 64, 0));
}

TEST(Pointwise, CastTruncatesAndRounds) {
  const auto cast = [](const Tensor& x, const char* to) {
    return elements_of({"Cast", {x}, {{"to", std::string(to)}}});
  };
  EXPECT_THAT(cast(floats({4}, {2.9F, -2.9F, NAN, 0}), "i32"), ElementsAre(2, -2, 0, 0));
  EXPECT_THAT(cast(floats({3}, {2.9F, -1.0F, 300.0F}), "u8"), ElementsAre(2, 255, 44));
  EXPECT_THAT(cast(floats({3}, {0.0F, -0.5F, 2.0F}), "bool"), ElementsAre(0, 1, 1));
  EXPECT_THAT(cast(bools({2}, {true, false}), "f16"), ElementsAre(1, 0));
  EXPECT_THAT(cast(floats({2}, {1.0004883F, 65520.0F}), "f16"),
              ElementsAre(1.0, std::numeric_limits<double>::infinity()));
  EXPECT_THAT(cast(floats({1}, {1.00390625F}), "bf16"), ElementsAre(1.0));
}

// silu(x) * y + bias, with x in f16, bias a row and two outputs.
TEST(Pointwise, ARegionRunsAsOneKernel) {
  auto body = std::make_shared<Graph>();
  GraphBuilder builder(body.get(), &core_ops());
  Value* x = body->add_input("x", {DType::kFloat16, {}});
  Value* y = body->add_input("y", {DType::kFloat32, {}});
  Value* bias = body->add_input("bias", {DType::kFloat32, {}});
  Value* wide = builder.cast(x, DType::kFloat32);
  Value* product = builder.op("Mul", {builder.op("Silu", {wide}), y});
  Value* sum = builder.op("Add", {product, bias});
  Value* is_large = builder.op("Greater", {sum, builder.scalar(DType::kFloat32, 100)});
  ASSERT_TRUE(builder.status().ok()) << builder.status().to_string();
  body->add_output(sum);
  body->add_output(is_large);
  body->add_output(y);  // an input that passes through
  const Tensor xs = as_type(counting({37, 65}), DType::kFloat16);
  const Tensor ys = counting({37, 1});
  const Tensor biases = counting({65});
  CoreRun run{"Pointwise", {xs, ys, biases}, {{"body", std::shared_ptr<const Graph>(body)}}, 3, 2};
  const auto outputs = run_core(run);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const Elements in = xs.to_doubles();
  const Elements sums = (*outputs)[0].to_doubles();
  const Elements flags = (*outputs)[1].to_doubles();
  const Elements copies = (*outputs)[2].to_doubles();
  ASSERT_EQ(sums.size(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto row = static_cast<double>(i / 65);
    const double expected = in[i] * sigmoid(in[i]) * row + static_cast<double>(i % 65);
    ASSERT_NEAR(sums[i], expected, 1e-5 * (1 + expected));
    ASSERT_EQ(flags[i], expected > 100 ? 1 : 0) << expected;
    ASSERT_EQ(copies[i], row);
  }
}

TEST(Pointwise, RegionsMayHoldMoreInputsThanAKernelStagesAhead) {
  auto body = std::make_shared<Graph>();
  GraphBuilder builder(body.get(), &core_ops());
  std::vector<Tensor> inputs;
  Value* sum = nullptr;
  for (int i = 0; i < 30; ++i) {
    Value* input = body->add_input("", {DType::kFloat32, {}});
    sum = sum == nullptr ? input : builder.op("Add", {sum, input});
    inputs.push_back(i % 2 == 0 ? counting({6}) : floats({2, 1}, {0, 10}));
  }
  ASSERT_TRUE(builder.status().ok());
  body->add_output(sum);
  const Elements y =
      elements_of({"Pointwise", inputs, {{"body", std::shared_ptr<const Graph>(body)}}});
  ASSERT_EQ(y.size(), 12U);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(y[i], 15 * (i % 6) + 150 * (i / 6));
}

TEST(Pointwise, MismatchedOperandsAreRefused) {
  const auto shapes = run_core({"Add", {floats({2}, {1, 2}), floats({3}, {1, 2, 3})}, {}});
  EXPECT_THAT(shapes.status().message(), HasSubstr("[2] and [3]"));
  const auto types = run_core({"Add", {floats({1}, {1}), ints({1}, {1})}, {}});
  EXPECT_THAT(types.status().message(), HasSubstr("f32 and i64"));
  const auto kind = run_core({"Sqrt", {ints({1}, {1})}, {}});
  EXPECT_THAT(kind.status().message(), HasSubstr("i64; expected a floating-point type"));
}

TEST(Pointwise, NanPassesThroughActivations) {
  const Tensor x = floats({1}, {NAN});
  for (const char* type : {"Relu", "Exp", "Tanh", "Sigmoid", "Erf", "Log", "Gelu", "Silu", "Sin"}) {
    EXPECT_TRUE(std::isnan(elements_of({type, {x}, {}})[0])) << type;
  }
  EXPECT_TRUE(std::isnan(elements_of({"Clip", {x}, {{"min", 0.0}, {"max", 1.0}}})[0]));
}

}  // namespace
}  // namespace tutti::cpu
