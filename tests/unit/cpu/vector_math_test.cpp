#include "backends/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tutti::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class Approximate, class Exact>
double worst_relative_error(Approximate approximate, Exact exact, float from, float to) {
  constexpr int kPoints = 200000;
  double worst = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const float x = from + (to - from) * static_cast<float>(i) / kPoints;
    const double expected = exact(static_cast<double>(x));
    const double error = std::fabs(static_cast<double>(approximate(x)) - expected) /
                         std::fmax(std::fabs(expected), 1e-37);
    worst = std::isnan(error) ? INFINITY : std::fmax(worst, error);
  }
  return worst;
}

#define EXPECT_ACCURATE(approximate, exact, from, to)                       \
  EXPECT_LT(worst_relative_error([](float x) { return approximate(x); },    \
                                 [](double x) { return exact; }, from, to), \
            3e-7)                                                           \
      << #approximate

TEST(VectorMath, RelativeErrorsStayWithinTheContract) {
  EXPECT_ACCURATE(exp_approx, std::exp(x), -86.0F, 88.0F);
  EXPECT_ACCURATE(exp_approx, std::exp(x), -1.0F, 1.0F);
  EXPECT_ACCURATE(expm1_approx, std::expm1(x), -20.0F, 20.0F);
  EXPECT_ACCURATE(log_approx, std::log(x), 1e-30F, 0.99F);
  EXPECT_ACCURATE(log_approx, std::log(x), 1.01F, 1e30F);
  EXPECT_ACCURATE(log1p_approx, std::log1p(x), 0.0F, 2.0F);
  EXPECT_ACCURATE(tanh_approx, std::tanh(x), -9.0F, 9.0F);
  EXPECT_ACCURATE(erf_approx, std::erf(x), -6.0F, 6.0F);
  EXPECT_ACCURATE(sigmoid_approx, 1 / (1 + std::exp(-x)), -80.0F, 80.0F);
  EXPECT_ACCURATE(sin_approx, std::sin(x), -1.5F, 1.5F);
  EXPECT_ACCURATE(cos_approx, std::cos(x), -1.5F, 1.5F);
  EXPECT_ACCURATE(mish_approx, x * std::tanh(std::log1p(std::exp(x))), -15.0F, 15.0F);
}

TEST(VectorMath, TrigonometricReductionHoldsUpToItsLimit) {
  for (float x = -kTrigLimit; x <= kTrigLimit; x += 37.77F) {
    ASSERT_NEAR(sin_approx(x), std::sin(static_cast<double>(x)), 2e-7) << x;
    ASSERT_NEAR(cos_approx(x), std::cos(static_cast<double>(x)), 2e-7) << x;
  }
}

TEST(VectorMath, LimitsAndNan) {
  EXPECT_EQ(exp_approx(kInfinity), kInfinity);
  EXPECT_EQ(exp_approx(-kInfinity), 0.0F);
  EXPECT_EQ(exp_approx(0.0F), 1.0F);
  EXPECT_EQ(exp_approx(88.8F), kInfinity);
  EXPECT_GT(exp_approx(-100.0F), 0.0F);  // subnormal, not lost
  EXPECT_EQ(log_approx(0.0F), -kInfinity);
  EXPECT_EQ(log_approx(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log_approx(-1.0F)));
  EXPECT_NEAR(log_approx(1e-40F), std::log(1e-40), 1e-3);
  EXPECT_EQ(tanh_approx(kInfinity), 1.0F);
  EXPECT_EQ(erf_approx(-kInfinity), -1.0F);
  EXPECT_EQ(sigmoid_approx(-kInfinity), 0.0F);
  EXPECT_EQ(softplus_approx(kInfinity), kInfinity);
  for (const float y : {exp_approx(NAN), log_approx(NAN), tanh_approx(NAN), erf_approx(NAN),
                        sigmoid_approx(NAN), sin_approx(NAN), softplus_approx(NAN),
                        mish_approx(NAN), expm1_approx(NAN), log1p_approx(NAN)}) {
    EXPECT_TRUE(std::isnan(y));
  }
}

}  // namespace
}  // namespace tutti::cpu
