// MatMul and Linear against sums in double.
#include <gtest/gtest.h>

#include <cmath>

#include "node_runner.h"

namespace tutti::cpu {
namespace {

using Doubles = std::vector<double>;

// [.., m, k] x [.., k, n] with NumPy's broadcasting of what is in front.
Doubles matmul(const Tensor& a, const Tensor& b, const Dims& out) {
  const std::size_t rank = out.size();
  const std::int64_t m = out[rank - 2];
  const std::int64_t n = out[rank - 1];
  const std::int64_t k = a.dims().back();
  const Doubles x = a.to_doubles();
  const Doubles y = b.to_doubles();
  const auto start = [&](const Tensor& t, std::int64_t matrix) {
    std::int64_t offset = 0;
    std::int64_t stride = t.dims()[t.rank() - 2] * t.dims()[t.rank() - 1];
    for (std::size_t d = rank - 2; d-- > 0;) {
      const std::int64_t index = matrix % out[d];
      matrix /= out[d];
      if (d + t.rank() < rank) continue;
      const std::int64_t size = t.dims()[d + t.rank() - rank];
      if (size != 1) offset += index * stride;
      stride *= size;
    }
    return offset;
  };
  Doubles result;
  for (std::int64_t matrix = 0; matrix < element_count(out) / std::max<std::int64_t>(1, m * n);
       ++matrix) {
    const std::int64_t p = start(a, matrix);
    const std::int64_t q = start(b, matrix);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t c = 0; c < k; ++c) {
          sum += x[static_cast<std::size_t>(p + i * k + c)] *
                 y[static_cast<std::size_t>(q + c * n + j)];
        }
        result.push_back(sum);
      }
    }
  }
  return result;
}

void expect_matmul(const Dims& a_dims, const Dims& b_dims, DType dtype, double tolerance,
                   bool is_constant = false, int threads = 1) {
  const Tensor a = converted(random_tensor(a_dims, 1), dtype);
  const Tensor b = converted(random_tensor(b_dims, 2), dtype);
  NodeRun run{"MatMul", {a, b}, {}, {}, threads};
  if (is_constant) run.constants = {1};
  const auto result = run_node(run);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const Tensor& out = result->outputs[0];
  EXPECT_LT(difference(out, matmul(a, b, out.dims())), tolerance)
      << str_cat(a_dims) << str_cat(b_dims) << dtype_name(dtype) << " threads " << threads;
}

TEST(MatMulKernel, MultipliesMatricesOfEverySize) {
  for (const std::int64_t m : {1, 5, 64, 130}) {
    for (const std::int64_t k : {1, 7, 48, 200}) {
      for (const std::int64_t n : {1, 3, 16, 129}) {
        expect_matmul({m, k}, {k, n}, DType::kFloat32, 1e-5);
      }
    }
  }
}

TEST(MatMulKernel, BroadcastsBatches) {
  for (const int threads : {1, 3}) {
    expect_matmul({2, 3, 17, 40}, {2, 3, 40, 33}, DType::kFloat32, 1e-5, false, threads);
    expect_matmul({2, 1, 17, 40}, {3, 40, 33}, DType::kFloat32, 1e-5, false, threads);
    expect_matmul({17, 40}, {2, 3, 40, 33}, DType::kFloat32, 1e-5, false, threads);
    expect_matmul({4, 17, 40}, {40, 33}, DType::kFloat32, 1e-5, true, threads);
    expect_matmul({4, 17, 40}, {1, 40, 33}, DType::kFloat32, 1e-5, true, threads);
    expect_matmul({5, 1, 2, 3}, {1, 6, 3, 2}, DType::kFloat32, 1e-5, false, threads);
  }
}

TEST(MatMulKernel, ComputesInEveryType) {
  for (const bool is_constant : {false, true}) {
    expect_matmul({70, 64}, {64, 48}, DType::kFloat16, 1e-2, is_constant, 2);
    expect_matmul({70, 64}, {64, 48}, DType::kBFloat16, 1e-1, is_constant, 2);
    expect_matmul({70, 64}, {64, 48}, DType::kFloat64, 1e-14, is_constant, 2);
  }
  expect_matmul({9, 8}, {8, 7}, DType::kInt32, 0.0 + 1e-15);
  expect_matmul({9, 8}, {8, 7}, DType::kInt64, 0.0 + 1e-15);
}

TEST(MatMulKernel, TakesEmptyOperands) {
  expect_matmul({0, 4}, {4, 3}, DType::kFloat32, 1e-9);
  expect_matmul({3, 4}, {4, 0}, DType::kFloat32, 1e-9);
  expect_matmul({3, 0}, {0, 5}, DType::kFloat32, 1e-9);  // sums of nothing are zero
  expect_matmul({0, 2, 3}, {0, 3, 2}, DType::kFloat32, 1e-9);
}

double activate(const std::string& name, double x) {
  if (name == "relu") return std::max(x, 0.0);
  if (name == "gelu") return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  if (name == "gelu_tanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "tanh") return std::tanh(x);
  return x;
}

struct LinearCase {
  Dims x;
  std::int64_t n;
  bool transpose = false;
  bool bias = true;
  bool residual = false;
  std::string activation = {};
  DType dtype = DType::kFloat32;
  bool constant = true;
  int threads = 1;
  double tolerance = 2e-5;
};

void expect_linear(const LinearCase& c) {
  const std::int64_t k = c.x.back();
  Dims out = c.x;
  out.back() = c.n;
  const Tensor x = converted(random_tensor(c.x, 1), c.dtype);
  const Tensor w =
      converted(random_tensor(c.transpose ? Dims{c.n, k} : Dims{k, c.n}, 2, 0.3), c.dtype);
  const Tensor bias = c.bias ? converted(random_tensor({c.n}, 3), c.dtype) : Tensor();
  const Tensor residual = c.residual ? converted(random_tensor(out, 4), c.dtype) : Tensor();
  NodeRun run{"Linear", {x, w, bias, residual}, {}, {}, c.threads};
  run.attributes = {{"transpose_w", std::int64_t{c.transpose}}, {"activation", c.activation}};
  if (c.constant) run.constants = {1, 2};
  const auto result = run_node(run);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const Doubles xs = x.to_doubles();
  const Doubles ws = w.to_doubles();
  const Doubles bs = c.bias ? bias.to_doubles() : Doubles(static_cast<std::size_t>(c.n), 0.0);
  Doubles expected;
  for (std::int64_t i = 0; i < element_count(out) / c.n; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = bs[static_cast<std::size_t>(j)];
      for (std::int64_t p = 0; p < k; ++p) {
        sum += xs[static_cast<std::size_t>(i * k + p)] *
               ws[static_cast<std::size_t>(c.transpose ? j * k + p : p * c.n + j)];
      }
      expected.push_back(activate(c.activation, sum));
    }
  }
  if (c.residual) {
    const Doubles rs = residual.to_doubles();
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += rs[i];
  }
  EXPECT_LT(difference(result->outputs[0], expected), c.tolerance)
      << str_cat(c.x, " n ", c.n, " transpose ", c.transpose, " residual ", c.residual, " ",
                 c.activation, " ", dtype_name(c.dtype), " threads ", c.threads);
}

TEST(LinearKernel, AddsBiasActivatesThenAddsResidual) {
  for (const char* activation : {"", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"}) {
    for (const bool residual : {false, true}) {
      expect_linear({.x = {2, 33, 24}, .n = 40, .residual = residual, .activation = activation});
      expect_linear({.x = {2, 33, 24},
                     .n = 40,
                     .residual = residual,
                     .activation = activation,
                     .dtype = DType::kFloat64,
                     .tolerance = 1e-13});
    }
  }
}

TEST(LinearKernel, TakesWeightsEitherWayConstantOrNot) {
  for (const bool transpose : {false, true}) {
    for (const bool constant : {false, true}) {
      for (const bool bias : {false, true}) {
        expect_linear({.x = {65, 96},
                       .n = 80,
                       .transpose = transpose,
                       .bias = bias,
                       .constant = constant,
                       .threads = 2});
      }
    }
  }
}

TEST(LinearKernel, SharesOutRowsAndColumns) {
  for (const int threads : {2, 3, 5}) {
    expect_linear(
        {.x = {1, 700, 64}, .n = 96, .activation = "silu", .threads = threads});  // rows, uneven
    expect_linear({.x = {2, 512}, .n = 1536, .activation = "silu", .threads = threads});  // columns
    expect_linear({.x = {2, 512}, .n = 1000, .transpose = true, .threads = threads});
    expect_linear({.x = {2, 512}, .n = 1000, .residual = true, .threads = threads});
  }
}

TEST(LinearKernel, ComputesInSixteenBits) {
  for (const bool constant : {false, true}) {
    expect_linear({.x = {70, 64},
                   .n = 48,
                   .residual = true,
                   .activation = "gelu",
                   .dtype = DType::kFloat16,
                   .constant = constant,
                   .threads = 2,
                   .tolerance = 1e-2});
    expect_linear({.x = {70, 64},
                   .n = 48,
                   .residual = true,
                   .activation = "gelu",
                   .dtype = DType::kBFloat16,
                   .constant = constant,
                   .threads = 2,
                   .tolerance = 1e-1});
  }
}

TEST(LinearKernel, TakesNoRows) { expect_linear({.x = {0, 8}, .n = 4}); }

TEST(LinearKernel, PacksConstantWeightsAndNeverReadsThemAgain) {
  NodeRun run{"Linear", {random_tensor({64, 64}, 1), random_tensor({64, 64}, 2)}, {}, {1}, 1};
  const auto result = run_node(run);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_TRUE(result->consumed[1]);
}

}  // namespace
}  // namespace tutti::cpu
