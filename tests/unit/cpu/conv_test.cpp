// Conv, ConvTranspose and Pool against plain loops in double. ConvTranspose is checked by
// scattering, where the kernels gather.
#include <gtest/gtest.h>

#include <cmath>

#include "node_runner.h"

namespace tutti::cpu {
namespace {

using Doubles = std::vector<double>;

struct ConvCase {
  Dims x;  // [n, c, ..]
  std::int64_t out = 4;
  Dims kernel;
  Dims strides = {};
  Dims pads = {};
  Dims dilations = {};
  Dims output_padding = {};
  std::int64_t group = 1;
  bool bias = true;
  bool constant = true;
  bool transposed = false;
  DType dtype = DType::kFloat32;
  int threads = 1;
  double tolerance = 2e-5;
};

// Calls f(position) for every position of a box.
template <class F>
void for_each(const Dims& sizes, F&& f) {
  if (element_count(sizes) == 0) return;
  Dims at(sizes.size(), 0);
  for (;;) {
    f(at);
    std::size_t d = sizes.size();
    while (d > 0 && ++at[d - 1] == sizes[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

std::size_t flat(const Dims& sizes, const Dims& at) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) index = index * sizes[d] + at[d];
  return static_cast<std::size_t>(index);
}

// Pairs (input position, output position) that kernel position k joins, as either operator sees it.
Doubles convolve(const ConvCase& c, const Tensor& x, const Tensor& w, const Tensor& bias,
                 const Dims& y_dims) {
  const std::size_t rank = c.kernel.size();
  const Dims space(c.x.begin() + 2, c.x.end());
  const Dims out_space(y_dims.begin() + 2, y_dims.end());
  const std::int64_t channels = c.x[1];
  const Doubles xs = x.to_doubles();
  const Doubles ws = w.to_doubles();
  Doubles y(static_cast<std::size_t>(element_count(y_dims)), 0.0);
  const auto in_size = static_cast<std::size_t>(element_count(space));
  const auto out_size = static_cast<std::size_t>(element_count(out_space));
  const auto kernel_size = static_cast<std::size_t>(element_count(c.kernel));
  for (std::int64_t n = 0; n < c.x[0]; ++n) {
    for_each(c.transposed ? space : out_space, [&](const Dims& here) {
      for_each(c.kernel, [&](const Dims& k) {
        Dims there(rank);
        for (std::size_t d = 0; d < rank; ++d) {
          const std::int64_t stride = c.strides.empty() ? 1 : c.strides[d];
          const std::int64_t dilation = c.dilations.empty() ? 1 : c.dilations[d];
          there[d] = here[d] * stride + k[d] * dilation - (c.pads.empty() ? 0 : c.pads[d]);
          if (there[d] < 0 || there[d] >= (c.transposed ? out_space : space)[d]) return;
        }
        const std::size_t in_at = flat(space, c.transposed ? here : there);
        const std::size_t out_at = flat(out_space, c.transposed ? there : here);
        for (std::int64_t o = 0; o < c.out; ++o) {
          const std::int64_t g = o / (c.out / c.group);
          for (std::int64_t i = 0; i < channels / c.group; ++i) {
            const std::int64_t channel = g * (channels / c.group) + i;
            const std::int64_t row = c.transposed
                                         ? channel * (c.out / c.group) + o % (c.out / c.group)
                                         : o * (channels / c.group) + i;
            y[static_cast<std::size_t>(n * c.out + o) * out_size + out_at] +=
                xs[static_cast<std::size_t>(n * channels + channel) * in_size + in_at] *
                ws[static_cast<std::size_t>(row) * kernel_size + flat(c.kernel, k)];
          }
        }
      });
    });
  }
  for (std::size_t i = 0; c.bias && i < y.size(); ++i) {
    y[i] += bias.to_doubles()[i / out_size % static_cast<std::size_t>(c.out)];
  }
  return y;
}

void expect_conv(const ConvCase& c) {
  Dims w_dims = c.transposed ? Dims{c.x[1], c.out / c.group} : Dims{c.out, c.x[1] / c.group};
  w_dims.insert(w_dims.end(), c.kernel.begin(), c.kernel.end());
  const Tensor x = converted(random_tensor(c.x, 1), c.dtype);
  const Tensor w = converted(random_tensor(w_dims, 2, 0.5), c.dtype);
  const Tensor bias = c.bias ? converted(random_tensor({c.out}, 3), c.dtype) : Tensor();
  NodeRun run{
      c.transposed ? "ConvTranspose" : "Conv", {x, w, bias}, {{"group", c.group}}, {}, c.threads};
  if (!c.strides.empty()) run.attributes["strides"] = c.strides;
  if (!c.pads.empty()) run.attributes["pads"] = c.pads;
  if (!c.dilations.empty()) run.attributes["dilations"] = c.dilations;
  if (!c.output_padding.empty()) run.attributes["output_padding"] = c.output_padding;
  if (c.constant) run.constants = {1, 2};
  const auto result = run_node(run);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const Doubles expected = convolve(c, x, w, bias, result->outputs[0].dims());
  EXPECT_LT(difference(result->outputs[0], expected), c.tolerance)
      << str_cat(c.transposed ? "transposed " : "", c.x, " -> ", result->outputs[0].dims(),
                 " kernel ", c.kernel, " strides ", c.strides, " pads ", c.pads, " dilations ",
                 c.dilations, " group ", c.group, " ", dtype_name(c.dtype), " threads ", c.threads);
}

TEST(ConvKernel, ConvolvesOneTwoAndThreeDimensions) {
  for (const int threads : {1, 3}) {
    expect_conv({.x = {2, 3, 50}, .kernel = {5}, .pads = {2, 2}, .threads = threads});
    expect_conv({.x = {2, 3, 33, 20},
                 .out = 17,
                 .kernel = {3, 3},
                 .pads = {1, 1, 1, 1},
                 .threads = threads});
    expect_conv({.x = {1, 16, 33, 20},
                 .out = 32,
                 .kernel = {3, 3},
                 .pads = {1, 1, 1, 1},
                 .threads = threads});
    expect_conv({.x = {1, 8, 5, 24, 9},
                 .out = 8,
                 .kernel = {3, 3, 3},
                 .pads = {1, 1, 1, 1, 1, 1},
                 .threads = threads});
    expect_conv({.x = {1, 8, 40, 6, 5},
                 .out = 8,
                 .kernel = {3, 1, 1},
                 .pads = {2, 0, 0, 0, 0, 0},
                 .threads = threads});
    expect_conv({.x = {1, 32, 16, 16}, .out = 64, .kernel = {1, 1}, .threads = threads});
  }
}

TEST(ConvKernel, StridesDilatesAndPadsUnevenly) {
  for (const int threads : {1, 2}) {
    expect_conv({.x = {1, 4, 30, 31},
                 .kernel = {3, 3},
                 .strides = {2, 2},
                 .pads = {0, 0, 1, 1},
                 .threads = threads});
    expect_conv({.x = {1, 4, 30, 31},
                 .kernel = {3, 2},
                 .strides = {3, 1},
                 .pads = {2, 1, 0, 0},
                 .threads = threads});
    expect_conv({.x = {1, 4, 30, 31},
                 .kernel = {3, 3},
                 .pads = {4, 4, 4, 4},
                 .dilations = {4, 4},
                 .threads = threads});
    expect_conv({.x = {1, 4, 6, 6}, .kernel = {1, 1}, .strides = {2, 2}, .threads = threads});
    expect_conv({.x = {1, 4, 3, 3},
                 .kernel = {3, 3},
                 .pads = {5, 5, 5, 5},
                 .threads = threads});  // rows of padding
  }
}

TEST(ConvKernel, Groups) {
  expect_conv({.x = {2, 8, 12, 12}, .out = 12, .kernel = {3, 3}, .pads = {1, 1, 1, 1}, .group = 4});
  expect_conv({.x = {2, 32, 12, 12},
               .out = 32,
               .kernel = {3, 3},
               .pads = {1, 1, 1, 1},
               .group = 32,
               .threads = 2});
  expect_conv({.x = {1, 6, 20}, .out = 6, .kernel = {4}, .group = 3, .bias = false});
}

TEST(ConvKernel, TakesWeightsThatAreNoConstants) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    expect_conv({.x = {2, 16, 20, 12},
                 .out = 24,
                 .kernel = {3, 3},
                 .pads = {1, 1, 1, 1},
                 .constant = false,
                 .dtype = dtype,
                 .threads = 2,
                 .tolerance = dtype == DType::kFloat32 ? 2e-5 : 5e-2});
  }
}

TEST(ConvKernel, ComputesInEveryType) {
  const ConvCase c{.x = {1, 16, 20, 12}, .out = 24, .kernel = {3, 3}, .pads = {1, 1, 1, 1}};
  for (const bool transposed : {false, true}) {
    for (const auto& [dtype, tolerance] : {std::pair{DType::kFloat64, 1e-13},
                                           {DType::kFloat16, 1e-2},
                                           {DType::kBFloat16, 1e-1},
                                           {DType::kInt32, 1e-15}}) {
      ConvCase one = c;
      one.dtype = dtype;
      one.tolerance = tolerance;
      one.transposed = transposed;
      expect_conv(one);
    }
  }
}

TEST(ConvKernel, TakesEmptyOperands) {
  expect_conv({.x = {0, 4, 8, 8}, .kernel = {3, 3}});
  expect_conv({.x = {1, 4, 2, 8}, .kernel = {3, 3}});  // no output rows
}

TEST(ConvTransposeKernel, SpreadsTheInput) {
  for (const int threads : {1, 3}) {
    expect_conv({.x = {2, 8, 20},
                 .out = 6,
                 .kernel = {4},
                 .strides = {2},
                 .pads = {1, 1},
                 .transposed = true,
                 .threads = threads});
    expect_conv({.x = {1, 16, 24, 10},
                 .out = 16,
                 .kernel = {3, 3},
                 .strides = {2, 2},
                 .pads = {1, 1, 1, 1},
                 .output_padding = {1, 1},
                 .transposed = true,
                 .threads = threads});
    expect_conv({.x = {1, 16, 24, 10},
                 .out = 16,
                 .kernel = {2, 2},
                 .strides = {2, 2},
                 .transposed = true,
                 .threads = threads});
    expect_conv({.x = {1, 4, 3, 20, 5},
                 .out = 8,
                 .kernel = {3, 3, 3},
                 .strides = {1, 2, 3},
                 .pads = {1, 0, 1, 0, 1, 0},
                 .transposed = true,
                 .threads = threads});
    expect_conv({.x = {1, 4, 12, 12},
                 .out = 8,
                 .kernel = {3, 3},
                 .strides = {2, 1},
                 .dilations = {2, 3},
                 .group = 2,
                 .transposed = true,
                 .threads = threads});
    expect_conv({.x = {1, 4, 6, 6},
                 .out = 4,
                 .kernel = {1, 1},
                 .strides = {3, 3},
                 .output_padding = {2, 2},
                 .transposed = true,
                 .threads = threads});  // stride beyond the kernel
  }
}

TEST(PoolKernel, TakesMaximaAveragesAndNorms) {
  const Tensor x = random_tensor({2, 3, 9, 11}, 1);
  const Doubles xs = x.to_doubles();
  for (const std::string kind : {"max", "average", "lp"}) {
    for (const bool ceil : {false, true}) {
      for (const bool counts_padding : {false, true}) {
        const auto result = run_node({"Pool",
                                      {x},
                                      {{"kind", kind},
                                       {"kernel_shape", Dims{3, 4}},
                                       {"strides", Dims{2, 3}},
                                       {"pads", Dims{1, 2, 0, 1}},
                                       {"dilations", Dims{1, 2}},
                                       {"ceil_mode", std::int64_t{ceil}},
                                       {"count_include_pad", std::int64_t{counts_padding}},
                                       {"p", std::int64_t{3}}},
                                      {},
                                      2});
        ASSERT_TRUE(result.ok()) << result.status().to_string();
        const Dims out = result->outputs[0].dims();
        Doubles expected;
        for_each(out, [&](const Dims& at) {
          double most = -HUGE_VAL;
          double sum = 0;
          int count = 0;
          for_each({3, 4}, [&](const Dims& k) {
            const std::int64_t r = at[2] * 2 - 1 + k[0];
            const std::int64_t q = at[3] * 3 - 2 + k[1] * 2;
            const bool is_inside = r >= 0 && r < 9 && q >= 0 && q < 11;
            if (is_inside || (counts_padding && r < 9 && q < 12)) ++count;
            if (!is_inside) return;
            const double value = xs[flat({2, 3, 9, 11}, {at[0], at[1], r, q})];
            most = std::max(most, value);
            sum += kind == "lp" ? std::pow(std::abs(value), 3) : value;
          });
          expected.push_back(kind == "max" ? most : kind == "lp" ? std::cbrt(sum) : sum / count);
        });
        EXPECT_LT(difference(result->outputs[0], expected), 1e-6) << kind << ceil << counts_padding;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::cpu
