// Norms and softmax against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "node_runner.h"

namespace tutti::cpu {
namespace {

using Doubles = std::vector<double>;

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return 1e-12;
    case DType::kFloat16: return 4e-3;
    case DType::kBFloat16: return 3e-2;
    default: return 2e-6;
  }
}

const DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

void expect_trailing_norm(const std::string& type, const Dims& dims, std::size_t axis, bool scale,
                          bool bias, DType dtype, double shift = 0.0) {
  const bool is_layer = type == "LayerNormalization";
  Tensor source = random_tensor(dims, 1);
  for (std::int64_t i = 0; i < source.element_count(); ++i) {
    source.mutable_data_as<float>()[i] += static_cast<float>(shift);
  }
  const Tensor x = converted(source, dtype);
  const Dims inner(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end());
  const Tensor s = scale ? converted(random_tensor(inner, 2), dtype) : Tensor();
  const Tensor b = bias ? converted(random_tensor(inner, 3), dtype) : Tensor();
  NodeRun run{type, {x, s}, {{"axis", static_cast<std::int64_t>(axis)}, {"epsilon", 1e-5}}, {}, 3};
  if (is_layer) run.inputs.push_back(b);
  const auto result = run_node(run);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const auto n = static_cast<std::size_t>(element_count(inner));
  const Doubles xs = x.to_doubles();
  Doubles expected;
  for (std::size_t row = 0; n > 0 && row < xs.size() / n; ++row) {
    double mean = 0;
    double square = 0;
    for (std::size_t i = 0; i < n && is_layer; ++i)
      mean += xs[row * n + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      square += (xs[row * n + i] - mean) * (xs[row * n + i] - mean) / static_cast<double>(n);
    }
    for (std::size_t i = 0; i < n; ++i) {
      double y = (xs[row * n + i] - mean) / std::sqrt(square + 1e-5);
      if (scale) y *= s.to_doubles()[i];
      if (bias && is_layer) y += b.to_doubles()[i];
      expected.push_back(y);
    }
  }
  EXPECT_LT(difference(result->outputs[0], expected), tolerance_of(dtype) * (1 + std::abs(shift)))
      << type << str_cat(dims, " axis ", axis, " ", dtype_name(dtype));
}

TEST(NormKernels, NormaliseTrailingAxes) {
  for (const DType dtype : kTypes) {
    for (const char* type : {"LayerNormalization", "RMSNormalization"}) {
      for (const bool scale : {false, true}) {
        for (const bool bias : {false, true}) {
          expect_trailing_norm(type, {3, 5, 37}, 2, scale, bias, dtype);
        }
      }
      expect_trailing_norm(type, {3, 4, 5}, 1, true, true, dtype);
      expect_trailing_norm(type, {3, 4, 5}, 0, true, true, dtype);
      expect_trailing_norm(type, {2, 1}, 1, true, true, dtype);
    }
  }
}

TEST(NormKernels, SubtractALargeMeanWithoutLosingDigits) {
  expect_trailing_norm("LayerNormalization", {4, 256}, 1, true, true, DType::kFloat32, 100.0);
}

TEST(NormKernels, TakeEmptyOperands) {
  expect_trailing_norm("LayerNormalization", {0, 8}, 1, true, true, DType::kFloat32);
  expect_trailing_norm("RMSNormalization", {3, 0}, 1, true, false, DType::kFloat32);
}

void expect_group_norm(const Dims& dims, std::int64_t groups, bool scale, bool bias, DType dtype) {
  const Tensor x = converted(random_tensor(dims, 1), dtype);
  const Tensor s = scale ? converted(random_tensor({dims[1]}, 2), dtype) : Tensor();
  const Tensor b = bias ? converted(random_tensor({dims[1]}, 3), dtype) : Tensor();
  const auto result =
      run_node({"GroupNorm", {x, s, b}, {{"groups", groups}, {"epsilon", 1e-5}}, {}, 2});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const Doubles xs = x.to_doubles();
  const std::int64_t space = element_count(Dims(dims.begin() + 2, dims.end()));
  const auto n = static_cast<std::size_t>(dims[1] / groups * space);
  Doubles expected;
  for (std::size_t g = 0; n > 0 && g < xs.size() / n; ++g) {
    double mean = 0;
    double square = 0;
    for (std::size_t i = 0; i < n; ++i) mean += xs[g * n + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      square += std::pow(xs[g * n + i] - mean, 2) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t channel =
          (g * n + i) / static_cast<std::size_t>(space) % static_cast<std::size_t>(dims[1]);
      double y = (xs[g * n + i] - mean) / std::sqrt(square + 1e-5);
      if (scale) y *= s.to_doubles()[channel];
      if (bias) y += b.to_doubles()[channel];
      expected.push_back(y);
    }
  }
  EXPECT_LT(difference(result->outputs[0], expected), tolerance_of(dtype))
      << str_cat(dims, " groups ", groups);
}

TEST(NormKernels, NormaliseGroupsOfChannels) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t groups : {1, 2, 3, 6}) {
      expect_group_norm({2, 6, 5, 7}, groups, true, true, dtype);
      expect_group_norm({2, 6, 5}, groups, false, true, dtype);
      expect_group_norm({2, 6}, groups, true, false, dtype);
    }
  }
  expect_group_norm({0, 6, 5}, 2, true, true, DType::kFloat32);
}

void expect_softmax(const std::string& type, const Tensor& x, std::size_t axis, double tolerance) {
  const auto result = run_node({type, {x}, {{"axis", static_cast<std::int64_t>(axis)}}, {}, 2});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const Dims& dims = x.dims();
  const Doubles xs = x.to_doubles();
  Doubles expected(xs.size());
  const auto stride = static_cast<std::size_t>(
      element_count(Dims(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end())));
  const auto n = static_cast<std::size_t>(dims[axis]);
  for (std::size_t start = 0; start < xs.size(); ++start) {
    if (start / stride % n != 0) continue;
    double most = -HUGE_VAL;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) most = std::max(most, xs[start + i * stride]);
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(xs[start + i * stride] - most);
    for (std::size_t i = 0; i < n; ++i) {
      const double log = xs[start + i * stride] - most - std::log(sum);
      expected[start + i * stride] = type == "Softmax" ? std::exp(log) : log;
    }
  }
  EXPECT_LT(difference(result->outputs[0], expected), tolerance)
      << type << str_cat(dims, " axis ", axis);
}

TEST(SoftmaxKernel, SumsToOneAlongAnyAxis) {
  for (const DType dtype : kTypes) {
    for (const char* type : {"Softmax", "LogSoftmax"}) {
      for (const std::size_t axis : {0, 1, 2}) {
        expect_softmax(type, converted(random_tensor({5, 33, 70}, 1, 4.0), dtype), axis,
                       tolerance_of(dtype));
      }
      expect_softmax(type, converted(random_tensor({1, 1}, 1), dtype), 1, tolerance_of(dtype));
    }
  }
}

TEST(SoftmaxKernel, TakesLargeAndMaskedScores) {
  Tensor x = random_tensor({4, 50}, 1, 300.0);
  x.mutable_data_as<float>()[7] = -std::numeric_limits<float>::infinity();
  expect_softmax("Softmax", x, 1, 1e-5);
  expect_softmax("Softmax", x, 0, 1e-5);
}

TEST(SoftmaxKernel, TakesEmptyOperands) {
  EXPECT_TRUE(run_node({"Softmax", {random_tensor({0, 3}, 1)}, {{"axis", std::int64_t{1}}}}).ok());
  EXPECT_TRUE(run_node({"Softmax", {random_tensor({3, 0}, 1)}, {{"axis", std::int64_t{1}}}}).ok());
  EXPECT_TRUE(run_node({"Softmax", {random_tensor({3, 0}, 1)}, {{"axis", std::int64_t{0}}}}).ok());
}

}  // namespace
}  // namespace tutti::cpu
