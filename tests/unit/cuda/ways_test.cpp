// Every way to compute an attention or a convolution, also those that no measurement would choose,
// against plain sums in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cuda/attention.h"
#include "backends/cuda/conv.h"
#include "backends/cuda/cudnn.h"
#include "base/half.h"

namespace tutti::cuda {
namespace {

// A tensor on the device, and what it holds as doubles.
struct Operand {
  std::unique_ptr<DeviceMemory> memory;
  std::vector<double> values;
};

template <class T>
Operand upload(const std::vector<double>& numbers) {
  std::vector<T> narrow;
  Operand made;
  for (const double number : numbers) {
    narrow.push_back(static_cast<T>(static_cast<float>(number)));
    made.values.push_back(static_cast<double>(static_cast<float>(narrow.back())));
  }
  auto memory = DeviceMemory::allocate(0, narrow.size() * sizeof(T));
  EXPECT_TRUE(memory.ok()) << memory.status().to_string();
  if (!memory.ok()) return made;
  made.memory = *std::move(memory);
  EXPECT_EQ(cudaMemcpy(made.memory->data(), narrow.data(), narrow.size() * sizeof(T),
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  return made;
}

class CudaWays : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    context_.arch = 10 * properties.major + properties.minor;
    context_.multiprocessors = properties.multiProcessorCount;
    context_.shared_bytes = properties.sharedMemPerBlockOptin;
    auto compiler = KernelCompiler::create();
    ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
    compiler_ = *std::move(compiler);
    context_.compiler = compiler_.get();
    auto cudnn = Cudnn::create(0, context_.arch);
    if (cudnn.ok()) cudnn_ = *std::move(cudnn);
    context_.cudnn = cudnn_.get();
    no_cudnn_ = cudnn.status().message();
    ASSERT_EQ(cudaStreamCreate(&context_.stream), cudaSuccess);
  }
  void TearDown() override {
    context_.cudnn_handle.reset();
    if (context_.stream != nullptr) (void)cudaStreamDestroy(context_.stream);
  }

  Operand random(DType dtype, std::int64_t count) {
    std::normal_distribution<double> normal;
    std::vector<double> numbers(static_cast<std::size_t>(count));
    for (double& number : numbers) number = normal(generator_);
    return dtype == DType::kFloat32   ? upload<float>(numbers)
           : dtype == DType::kFloat16 ? upload<Half>(numbers)
                                      : upload<BFloat16>(numbers);
  }

  // Runs on NaNs and gives the relative error in the whole.
  template <class Run>
  double error_of(DType dtype, const std::vector<double>& want, Run run) {
    const std::size_t bytes = want.size() * dtype_size(dtype);
    auto out = DeviceMemory::allocate(0, bytes);
    if (!out.ok()) return NAN;
    (void)cudaMemset((*out)->data(), 0xff, bytes);
    const Status status = run((*out)->data());
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(cudaStreamSynchronize(context_.stream), cudaSuccess);
    std::vector<std::byte> host(bytes);
    (void)cudaMemcpy(host.data(), (*out)->data(), bytes, cudaMemcpyDeviceToHost);
    double error = 0;
    double norm = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::byte* at = host.data() + i * dtype_size(dtype);
      const double got =
          dtype == DType::kFloat32 ? static_cast<double>(*reinterpret_cast<const float*>(at))
          : dtype == DType::kFloat16
              ? static_cast<double>(static_cast<float>(*reinterpret_cast<const Half*>(at)))
              : static_cast<double>(static_cast<float>(*reinterpret_cast<const BFloat16*>(at)));
      error += (got - want[i]) * (got - want[i]);
      norm += want[i] * want[i];
    }
    return std::sqrt(error / norm);
  }

  // Whether the card and NVRTC know the instructions that only compute capability 9.0 has.
  Status hopper() {
    if (context_.arch != 90) return unimplemented("not a card of compute capability 9.0");
    KernelSource source;
    source.entry = "nothing";
    source.defines = {{"NUM_POINTERS", "1"}, {"NUM_NUMBERS", "1"}};
    source.needs_exact_arch = true;
    source.code = "extern \"C\" __global__ void KERNEL_NAME(const __grid_constant__ Params) {}";
    const Status status = compiler_->compile(source, context_.arch).status();
    if (status.code() == StatusCode::kUnimplemented) return status;
    EXPECT_TRUE(status.ok()) << status.to_string();
    return {};
  }

  std::unique_ptr<KernelCompiler> compiler_;
  std::unique_ptr<Cudnn> cudnn_;
  std::string no_cudnn_;  // why there is none
  RankContext context_;
  std::mt19937 generator_{7};
};

double tolerance_of(DType dtype) {
  return dtype == DType::kFloat32 ? 1e-4 : dtype == DType::kFloat16 ? 2e-3 : 1e-2;
}

AttentionProblem problem_of(DType dtype, std::int64_t batch, std::int64_t heads,
                            std::int64_t kv_heads, std::int64_t queries, std::int64_t keys,
                            std::int64_t size, bool is_token_major) {
  AttentionProblem p;
  p.dtype = dtype;
  p.batch = batch;
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.queries = queries;
  p.keys = keys;
  p.qk_size = p.v_size = size;
  p.scale = 1 / std::sqrt(static_cast<double>(size));
  const auto strides = [&](std::int64_t count, std::int64_t tokens) -> AttentionStrides {
    const std::int64_t whole = count * tokens * size;
    if (is_token_major) return {whole, size, count * size};
    return {whole, tokens * size, size};
  };
  p.q = p.out = strides(heads, queries);
  p.k = p.v = strides(kv_heads, keys);
  return p;
}

std::vector<double> attend(const AttentionProblem& p, const std::vector<double>& q,
                           const std::vector<double>& k, const std::vector<double>& v) {
  std::vector<double> out(static_cast<std::size_t>(p.batch * p.heads * p.queries * p.v_size));
  std::vector<double> weights(static_cast<std::size_t>(p.keys));
  const auto at = [](const AttentionStrides& s, std::int64_t b, std::int64_t h, std::int64_t t) {
    return static_cast<std::size_t>(b * s.batch + h * s.head + t * s.token);
  };
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::int64_t g = h / (p.heads / p.kv_heads);
      for (std::int64_t i = 0; i < p.queries; ++i) {
        double most = -INFINITY;
        // Those that a causal row sees.
        const std::int64_t keys = p.is_causal ? std::min(p.keys, i + p.causal_offset + 1) : p.keys;
        for (std::int64_t j = 0; j < keys; ++j) {
          double sum = 0;
          for (std::int64_t d = 0; d < p.qk_size; ++d) {
            const auto e = static_cast<std::size_t>(d);
            sum += q[at(p.q, b, h, i) + e] * k[at(p.k, b, g, j) + e];
          }
          weights[static_cast<std::size_t>(j)] = sum * p.scale;
          most = std::max(most, sum * p.scale);
        }
        double total = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double& weight = weights[static_cast<std::size_t>(j)];
          total += weight = std::exp(weight - most);
        }
        for (std::int64_t j = 0; j < keys; ++j) {
          for (std::int64_t d = 0; d < p.v_size; ++d) {
            const auto e = static_cast<std::size_t>(d);
            out[at(p.out, b, h, i) + e] +=
                weights[static_cast<std::size_t>(j)] / total * v[at(p.v, b, g, j) + e];
          }
        }
      }
    }
  }
  return out;
}

TEST_F(CudaWays, OfAttentionAgreeAtAnyTail) {
  if (cudnn_ == nullptr) GTEST_SKIP() << no_cudnn_;
  // Tails of every size of tile, rows that fill no warp, one head and several a key head.
  const std::vector<AttentionProblem> problems = {
      problem_of(DType::kBFloat16, 1, 4, 1, 45, 2049, 128, true),
      problem_of(DType::kBFloat16, 2, 4, 2, 33, 2064, 64, false),
      problem_of(DType::kFloat16, 1, 2, 2, 70, 2100, 128, false),
      problem_of(DType::kFloat16, 1, 3, 1, 17, 2175, 96, true),
      problem_of(DType::kBFloat16, 1, 2, 1, 16, 2176, 128, true),
      problem_of(DType::kBFloat16, 1, 8, 2, 130, 2303, 128, true)};
  for (const AttentionProblem& p : problems) {
    SCOPED_TRACE(testing::Message() << dtype_name(p.dtype) << " " << p.queries << "x" << p.keys);
    const Operand q = random(p.dtype, p.batch * p.heads * p.queries * p.qk_size);
    const Operand k = random(p.dtype, p.batch * p.kv_heads * p.keys * p.qk_size);
    const Operand v = random(p.dtype, p.batch * p.kv_heads * p.keys * p.v_size);
    const std::vector<double> want = attend(p, q.values, k.values, v.values);
    auto ways = make_cudnn_attentions(p, context_);
    ASSERT_TRUE(ways.ok()) << ways.status().to_string();
    EXPECT_EQ(ways->size(), p.keys % 128 == 0 ? 1 : 2);
    auto plain = make_plain_attention(p, context_);
    ASSERT_TRUE(plain.ok()) << plain.status().to_string();
    ways->push_back(*std::move(plain));
    for (const auto& way : *ways) {
      const auto workspace = DeviceMemory::allocate(0, way->workspace_bytes() + 64);
      ASSERT_TRUE(workspace.ok());
      const double error = error_of(p.dtype, want, [&](void* out) {
        // An arena only promises a cache line.
        auto* const place = static_cast<std::byte*>((*workspace)->data()) + 64;
        return way->run(
            {q.memory->data(), k.memory->data(), v.memory->data(), nullptr, nullptr, out, place});
      });
      EXPECT_LE(error, tolerance_of(p.dtype)) << way->name();
    }
  }
}

// A problem whose keys and values have other sizes than its other heads.
AttentionProblem with_sizes(AttentionProblem p, std::int64_t qk_size, std::int64_t v_size) {
  const auto resized = [](const AttentionStrides& s, std::int64_t was,
                          std::int64_t is) -> AttentionStrides {
    return {s.batch / was * is, s.head / was * is, s.token / was * is};
  };
  p.v = resized(p.v, p.v_size, v_size);
  p.out = resized(p.out, p.v_size, v_size);
  p.q = resized(p.q, p.qk_size, qk_size);
  p.k = resized(p.k, p.qk_size, qk_size);
  p.qk_size = qk_size;
  p.v_size = v_size;
  return p;
}

AttentionProblem causal(AttentionProblem p, std::int64_t offset) {
  p.is_causal = true;
  p.causal_offset = offset;
  return p;
}

TEST_F(CudaWays, OfAttentionOnHopper) {
  if (const Status status = hopper(); !status.ok()) GTEST_SKIP() << status.message();
  constexpr DType kBf16 = DType::kBFloat16;
  constexpr DType kFp16 = DType::kFloat16;
  // One query and key, tiles that are filled and not, one more; more tiles of queries than a card
  // has multiprocessors; an odd number of tiles for a cluster's two blocks; heads of any size.
  std::vector<AttentionProblem> problems = {
      problem_of(kBf16, 1, 1, 1, 1, 1, 128, true),
      problem_of(kBf16, 1, 1, 1, 192, 128, 128, false),
      problem_of(kBf16, 1, 3, 1, 193, 129, 128, true),
      problem_of(kFp16, 2, 4, 2, 191, 127, 128, false),
      problem_of(kFp16, 1, 2, 1, 40, 1000, 64, true),
      problem_of(kBf16, 2, 3, 3, 385, 700, 64, false),
      problem_of(kBf16, 3, 40, 10, 400, 300, 64, true),
      problem_of(kBf16, 1, 320, 320, 200, 40, 8, true),
      problem_of(kBf16, 1, 4, 2, 100, 260, 72, true),
      problem_of(kFp16, 1, 2, 2, 100, 260, 120, false),
      with_sizes(problem_of(kBf16, 1, 4, 2, 100, 260, 128, true), 64, 128),
      with_sizes(problem_of(kBf16, 2, 4, 2, 100, 260, 128, false), 128, 64),
      with_sizes(problem_of(kFp16, 1, 4, 4, 200, 300, 128, true), 40, 88),
  };
  for (const std::int64_t offset : {0, 1, 127, 128, 200, 1000}) {
    problems.push_back(causal(problem_of(kBf16, 1, 3, 1, 500, 517, 128, true), offset));
    problems.push_back(causal(problem_of(kFp16, 2, 2, 1, 70, 400, 64, false), offset));
  }
  problems.push_back(causal(problem_of(kBf16, 1, 1, 1, 1000, 200, 128, true), 0));
  for (const AttentionProblem& p : problems) {
    SCOPED_TRACE(testing::Message()
                 << dtype_name(p.dtype) << " " << p.batch << "x" << p.heads << "/" << p.kv_heads
                 << " " << p.queries << "x" << p.keys << " " << p.qk_size << "/" << p.v_size
                 << (p.is_causal ? str_cat(" causal ", p.causal_offset) : ""));
    const Operand q = random(p.dtype, p.batch * p.heads * p.queries * p.qk_size);
    const Operand k = random(p.dtype, p.batch * p.kv_heads * p.keys * p.qk_size);
    const Operand v = random(p.dtype, p.batch * p.kv_heads * p.keys * p.v_size);
    const std::vector<double> want = attend(p, q.values, k.values, v.values);
    auto way = make_hopper_attention(p, context_);
    ASSERT_TRUE(way.ok()) << way.status().to_string();
    const double error = error_of(p.dtype, want, [&](void* out) {
      return (*way)->run(
          {q.memory->data(), k.memory->data(), v.memory->data(), nullptr, nullptr, out, nullptr});
    });
    EXPECT_LE(error, tolerance_of(p.dtype));
  }
}

// Scores that rise and fall by far more than the kernel lets a maximum lag behind.
TEST_F(CudaWays, OfAttentionOnHopperTakeScoresOfAnySize) {
  if (const Status status = hopper(); !status.ok()) GTEST_SKIP() << status.message();
  for (const double scale : {1e-3, 1.0, 4.0}) {
    SCOPED_TRACE(scale);
    AttentionProblem p = problem_of(DType::kBFloat16, 1, 2, 1, 300, 900, 64, true);
    p.scale = scale;
    const Operand q = random(p.dtype, p.heads * p.queries * p.qk_size);
    const Operand k = random(p.dtype, p.keys * p.qk_size);
    const Operand v = random(p.dtype, p.keys * p.v_size);
    const std::vector<double> want = attend(p, q.values, k.values, v.values);
    auto way = make_hopper_attention(p, context_);
    ASSERT_TRUE(way.ok()) << way.status().to_string();
    const double error = error_of(p.dtype, want, [&](void* out) {
      return (*way)->run(
          {q.memory->data(), k.memory->data(), v.memory->data(), nullptr, nullptr, out, nullptr});
    });
    EXPECT_LE(error, tolerance_of(p.dtype));
  }
}

TEST_F(CudaWays, OfAttentionOnHopperRefuseWhatTheyDoNotTake) {
  const AttentionProblem fits = problem_of(DType::kBFloat16, 1, 2, 1, 16, 16, 128, true);
  std::vector<AttentionProblem> problems(9, fits);
  problems[0].dtype = DType::kFloat32;
  problems[1].mask_dtype = DType::kBool;
  problems[2].has_lengths = true;
  problems[3].softcap = 5;
  problems[4] = with_sizes(fits, 136, 128);
  problems[5] = with_sizes(fits, 128, 100);
  problems[6].scale = -1;
  problems[7] = causal(fits, -1);
  problems[8].k.token += 4;
  for (const AttentionProblem& p : problems) {
    EXPECT_EQ(make_hopper_attention(p, context_).status().code(), StatusCode::kUnimplemented);
  }
}

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
