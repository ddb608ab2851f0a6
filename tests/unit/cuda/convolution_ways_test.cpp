// Every way to compute a convolution, also those that no measurement would choose, against plain
// sums in double precision.
#include "backends/cuda/conv.h"
#include "ways.h"

namespace tutti::cuda {
namespace {

struct ConvolutionCase {
  Dims x, w, strides, before, after;
  std::int64_t group = 1;
  bool is_transposed = false;
};

ConvolutionProblem problem_of(DType dtype, const ConvolutionCase& c) {
  ConvolutionProblem p;
  p.dtype = dtype;
  p.is_transposed = c.is_transposed;
  p.has_bias = true;
  p.x = c.x;
  p.w = c.w;
  p.strides = c.strides;
  p.dilations.assign(c.strides.size(), 1);
  p.before = c.before;
  p.after = c.after;
  p.group = c.group;
  p.y = {c.x[0], c.is_transposed ? c.w[1] * c.group : c.w[0]};
  for (std::size_t d = 0; d < c.strides.size(); ++d) {
    const std::int64_t pads = c.before[d] + c.after[d];
    p.y.push_back(c.is_transposed ? (c.x[d + 2] - 1) * c.strides[d] + c.w[d + 2] - pads
                                  : (c.x[d + 2] + pads - c.w[d + 2]) / c.strides[d] + 1);
  }
  return p;
}

// The index that `at` is the row-major position of.
Dims index_of(std::int64_t at, const Dims& dims) {
  Dims index(dims.size());
  for (std::size_t d = dims.size(); d-- > 0; at /= dims[d]) index[d] = at % dims[d];
  return index;
}

std::size_t position_of(const Dims& index, const Dims& dims) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) at = at * dims[d] + index[d];
  return static_cast<std::size_t>(at);
}

// Every input element with every weight: what they add to, if it is inside.
std::vector<double> convolve(const ConvolutionProblem& p, const std::vector<double>& x,
                             const std::vector<double>& w, const std::vector<double>& bias) {
  std::vector<double> y(static_cast<std::size_t>(element_count(p.y)));
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = bias[static_cast<std::size_t>(index_of(static_cast<std::int64_t>(i), p.y)[1])];
  }
  const std::int64_t in_group = p.x[1] / p.group;
  const std::int64_t out_group = p.y[1] / p.group;
  for (std::int64_t i = 0; i < element_count(p.x); ++i) {
    const Dims from = index_of(i, p.x);
    for (std::int64_t j = 0; j < element_count(p.w); ++j) {
      const Dims weight = index_of(j, p.w);
      Dims to = from;
      const std::int64_t group = from[1] / in_group;
      if (p.is_transposed ? weight[0] != from[1]
                          : weight[1] != from[1] % in_group || weight[0] / out_group != group) {
        continue;
      }
      to[1] = p.is_transposed ? group * out_group + weight[1] : weight[0];
      bool is_inside = true;
      for (std::size_t d = 2; d < to.size() && is_inside; ++d) {
        const std::int64_t stride = p.strides[d - 2];
        if (p.is_transposed) {
          to[d] = from[d] * stride + weight[d] - p.before[d - 2];
        } else {
          const std::int64_t offset = from[d] + p.before[d - 2] - weight[d];
          is_inside = offset >= 0 && offset % stride == 0;
          to[d] = offset / stride;
        }
        is_inside = is_inside && to[d] >= 0 && to[d] < p.y[d];
      }
      if (!is_inside) continue;
      y[position_of(to, p.y)] += x[static_cast<std::size_t>(i)] * w[static_cast<std::size_t>(j)];
    }
  }
  return y;
}

TEST_F(CudaWays, OfConvolutionsAgree) {
  if (cudnn_ == nullptr) GTEST_SKIP() << no_cudnn_;
  const std::vector<ConvolutionCase> cases = {
      {{2, 8, 9, 10}, {16, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{1, 8, 9, 10}, {16, 4, 3, 3}, {2, 1}, {1, 0}, {0, 2}, 2},
      {{1, 8, 4, 5, 6}, {8, 8, 3, 3, 3}, {1, 1, 1}, {2, 1, 1}, {0, 1, 1}},
      {{2, 8, 11}, {8, 8, 3}, {1}, {1}, {1}},
      {{1, 16, 5, 6}, {16, 8, 4, 4}, {2, 2}, {1, 1}, {1, 1}, 1, true},
      {{1, 8, 3, 4, 5}, {8, 8, 3, 2, 2}, {1, 2, 2}, {1, 0, 0}, {1, 0, 0}, 1, true}};
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const ConvolutionCase& c : cases) {
      for (const bool is_constant : {false, true}) {
        ConvolutionProblem p = problem_of(dtype, c);
        p.has_constant_weights = is_constant;
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << str_cat(p.x, " ", p.w));
        const Operand x = random(dtype, element_count(p.x));
        const Operand w = random(dtype, element_count(p.w));
        const Operand bias = random(dtype, p.y[1]);
        const std::vector<double> want = convolve(p, x.values, w.values, bias.values);
        auto ways = make_cudnn_convolutions(p, "", context_);
        ASSERT_TRUE(ways.ok()) << ways.status().to_string();
        EXPECT_FALSE(ways->empty());
        auto plain = make_plain_convolution(p, context_);
        ASSERT_TRUE(plain.ok()) << plain.status().to_string();
        ways->push_back(*std::move(plain));
        for (const auto& way : *ways) {
          const auto workspace = DeviceMemory::allocate(0, way->workspace_bytes() + 64);
          ASSERT_TRUE(workspace.ok());
          auto* const place = static_cast<std::byte*>((*workspace)->data()) + 64;
          for (int run = 0; run < 2; ++run) {
            const double error = error_of(dtype, want, [&](void* y) {
              return way->run({x.memory->data(), w.memory->data(), bias.memory->data(), y, place});
            });
            EXPECT_LE(error, tolerance_of(dtype)) << way->name() << " run " << run;
          }
        }
        // By its name a way is found again, alone.
        const std::string name = ways->front()->name();
        const auto named = make_cudnn_convolutions(p, name, context_);
        ASSERT_TRUE(named.ok() && named->size() == 1) << name;
        EXPECT_EQ(named->front()->name(), name);
      }
    }
  }
}

}  // namespace
}  // namespace tutti::cuda
