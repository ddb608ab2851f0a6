// Attention against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "node_runner.h"

namespace tutti::cpu {
namespace {

using Doubles = std::vector<double>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct AttentionCase {
  std::int64_t batch = 1, heads = 2, kv_heads = 2, queries = 5, keys = 7, d = 8, e = 8;
  std::string layout = "bhsd";
  double scale = 0.3;
  double softcap = 0;
  bool is_causal = false;
  std::int64_t causal_offset = 0;
  Dims mask = {};  // empty: none
  bool is_bool_mask = false;
  std::vector<std::int64_t> key_lengths = {};
  DType dtype = DType::kFloat32;
  int threads = 1;
  double tolerance = 1e-5;
};

Dims in_layout(const AttentionCase& c, std::int64_t heads, std::int64_t tokens, std::int64_t size) {
  return c.layout == "bshd" ? Dims{c.batch, tokens, heads, size}
                            : Dims{c.batch, heads, tokens, size};
}

std::size_t at(const AttentionCase& c, std::int64_t heads, std::int64_t tokens, std::int64_t size,
               std::int64_t b, std::int64_t h, std::int64_t t) {
  return static_cast<std::size_t>(
      (c.layout == "bshd" ? (b * tokens + t) * heads + h : (b * heads + h) * tokens + t) * size);
}

Doubles attention(const AttentionCase& c, const Doubles& q, const Doubles& k, const Doubles& v,
                  const Doubles& mask) {
  Doubles out(static_cast<std::size_t>(c.batch * c.heads * c.queries * c.e), 0.0);
  Dims full = c.mask;
  while (!full.empty() && full.size() < 4) full.insert(full.begin(), 1);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const std::int64_t kv = h / (c.heads / c.kv_heads);
      for (std::int64_t i = 0; i < c.queries; ++i) {
        Doubles scores(static_cast<std::size_t>(c.keys), -kInfinity);
        double most = -kInfinity;
        for (std::int64_t j = 0; j < c.keys; ++j) {
          const auto length =
              c.key_lengths.empty() ? c.keys : c.key_lengths[static_cast<std::size_t>(b)];
          const auto offset = c.key_lengths.empty() ? c.causal_offset : length - c.queries;
          if (j >= length || (c.is_causal && j > i + offset)) continue;
          double sum = 0;
          for (std::int64_t p = 0; p < c.d; ++p) {
            sum += q[at(c, c.heads, c.queries, c.d, b, h, i) + static_cast<std::size_t>(p)] *
                   k[at(c, c.kv_heads, c.keys, c.d, b, kv, j) + static_cast<std::size_t>(p)];
          }
          sum *= c.scale;
          if (c.softcap > 0) sum = c.softcap * std::tanh(sum / c.softcap);
          if (!full.empty()) {
            const std::int64_t index[4] = {b, h, i, j};
            std::int64_t place = 0;
            for (std::size_t a = 0; a < 4; ++a)
              place = place * full[a] + (full[a] == 1 ? 0 : index[a]);
            const double m = mask[static_cast<std::size_t>(place)];
            sum = c.is_bool_mask ? (m != 0 ? sum : -kInfinity) : sum + m;
          }
          scores[static_cast<std::size_t>(j)] = sum;
          most = std::max(most, sum);
        }
        if (most == -kInfinity) continue;
        double total = 0;
        for (double& score : scores) {
          score = std::exp(score - most);
          total += score;
        }
        for (std::int64_t j = 0; j < c.keys; ++j) {
          for (std::int64_t p = 0; p < c.e; ++p) {
            out[at(c, c.heads, c.queries, c.e, b, h, i) + static_cast<std::size_t>(p)] +=
                scores[static_cast<std::size_t>(j)] / total *
                v[at(c, c.kv_heads, c.keys, c.e, b, kv, j) + static_cast<std::size_t>(p)];
          }
        }
      }
    }
  }
  return out;
}

Tensor make_mask(const AttentionCase& c) {
  if (c.mask.empty()) return {};
  Tensor mask = random_tensor(c.mask, 9, 2.0);
  for (std::int64_t i = 0; i < mask.element_count(); ++i) {
    float& x = mask.mutable_data_as<float>()[i];
    if (c.is_bool_mask) {
      x = x > -1.0f ? 1.0f : 0.0f;
    } else if (x < -3.0f) {
      x = -std::numeric_limits<float>::infinity();
    }
  }
  return converted(mask, c.is_bool_mask ? DType::kBool : c.dtype);
}

NodeRun make_run(const AttentionCase& c, const Tensor& mask) {
  NodeRun run{"Attention",
              {converted(random_tensor(in_layout(c, c.heads, c.queries, c.d), 1), c.dtype),
               converted(random_tensor(in_layout(c, c.kv_heads, c.keys, c.d), 2), c.dtype),
               converted(random_tensor(in_layout(c, c.kv_heads, c.keys, c.e), 3), c.dtype), mask},
              {{"scale", c.scale},
               {"softcap", c.softcap},
               {"is_causal", std::int64_t{c.is_causal}},
               {"causal_offset", Shape{Dim(c.causal_offset)}},
               {"layout", c.layout}},
              {},
              c.threads};
  run.inputs.push_back(c.key_lengths.empty() ? Tensor() : Tensor::ints(c.key_lengths));
  return run;
}

void expect_attention(const AttentionCase& c, const Tensor& mask) {
  const NodeRun run = make_run(c, mask);
  const auto result = run_node(run);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const Doubles expected =
      attention(c, run.inputs[0].to_doubles(), run.inputs[1].to_doubles(),
                run.inputs[2].to_doubles(), mask.defined() ? mask.to_doubles() : Doubles());
  EXPECT_LT(difference(result->outputs[0], expected), c.tolerance)
      << str_cat(c.layout, " queries ", c.queries, " keys ", c.keys, " d ", c.d, " e ", c.e,
                 " mask ", c.mask, " causal ", c.is_causal, " ", dtype_name(c.dtype));
}

void expect_attention(const AttentionCase& c) { expect_attention(c, make_mask(c)); }

TEST(AttentionKernel, MatchesPlainLoopsForAllSizes) {
  for (const std::string layout : {"bhsd", "bshd"}) {
    for (const std::int64_t queries : {1, 11, 200}) {
      for (const std::int64_t keys : {1, 31, 33, 128, 300}) {
        for (const std::int64_t d : {4, 32, 40}) {
          expect_attention(
              {.batch = 2, .queries = queries, .keys = keys, .d = d, .e = d, .layout = layout});
        }
      }
    }
  }
}

TEST(AttentionKernel, TakesValuesOfAnotherSize) {
  for (const std::int64_t e : {1, 15, 16, 17, 48, 64, 100})
    expect_attention({.keys = 40, .d = 12, .e = e});
}

TEST(AttentionKernel, GroupsQueryHeads) {
  for (const std::int64_t kv_heads : {1, 2, 4, 12}) {
    for (const std::string layout : {"bhsd", "bshd"}) {
      expect_attention({.batch = 2,
                        .heads = 12,
                        .kv_heads = kv_heads,
                        .queries = 50,
                        .keys = 70,
                        .layout = layout,
                        .threads = 3});
    }
  }
}

TEST(AttentionKernel, GroupsLargerThanATile) {
  expect_attention({.heads = 250, .kv_heads = 1, .queries = 3, .keys = 20});
}

TEST(AttentionKernel, AddsMasksThatBroadcast) {
  for (const Dims& mask : {Dims{2, 4, 9, 150}, Dims{2, 1, 1, 150}, Dims{9, 150}, Dims{150},
                           Dims{4, 9, 1}, Dims{1, 4, 9, 150}, Dims{2, 1, 9, 150}, Dims{1}}) {
    for (const bool is_bool : {false, true}) {
      for (const std::string layout : {"bhsd", "bshd"}) {
        expect_attention({.batch = 2,
                          .heads = 4,
                          .queries = 9,
                          .keys = 150,
                          .layout = layout,
                          .mask = mask,
                          .is_bool_mask = is_bool});
      }
    }
  }
}

TEST(AttentionKernel, GivesZerosWhereEverythingIsMasked) {
  const AttentionCase c{.queries = 3, .keys = 200, .mask = {3, 200}, .is_bool_mask = true};
  Tensor mask = *Tensor::allocate(DType::kBool, {3, 200});
  for (std::int64_t i = 0; i < 600; ++i)
    mask.mutable_data_as<bool>()[i] = i >= 200;  // row 0 sees nothing
  expect_attention(c, mask);
  AttentionCase d = c;
  d.is_bool_mask = false;
  Tensor lowest = random_tensor({3, 200}, 5);
  for (std::int64_t i = 0; i < 200; ++i) {
    lowest.mutable_data_as<float>()[i] = -std::numeric_limits<float>::infinity();
  }
  expect_attention(d, lowest);
}

TEST(AttentionKernel, SeesNothingInTheFirstBlockOfKeys) {
  const AttentionCase c{.queries = 2, .keys = 400, .mask = {400}, .is_bool_mask = true};
  Tensor mask = *Tensor::allocate(DType::kBool, {400});
  for (std::int64_t i = 0; i < 400; ++i) mask.mutable_data_as<bool>()[i] = i > 300;
  expect_attention(c, mask);
}

TEST(AttentionKernel, IsCausal) {
  for (const std::int64_t offset : {0, 3, -2, 200}) {
    expect_attention(
        {.queries = 150, .keys = 170, .is_causal = true, .causal_offset = offset, .threads = 2});
    expect_attention({.queries = 7,
                      .keys = 170,
                      .layout = "bshd",
                      .is_causal = true,
                      .causal_offset = offset,
                      .mask = {7, 170}});
  }
}

TEST(AttentionKernel, TakesKeyLengths) {
  expect_attention({.batch = 3, .queries = 4, .keys = 140, .key_lengths = {140, 0, 33}});
  expect_attention(
      {.batch = 3, .queries = 4, .keys = 140, .is_causal = true, .key_lengths = {140, 2, 33}});
  expect_attention({.batch = 2, .queries = 4, .keys = 20, .key_lengths = {-5, 999}});
}

TEST(AttentionKernel, CapsScores) {
  expect_attention({.keys = 150, .scale = 2.0, .softcap = 1.5});
  expect_attention({.keys = 150, .scale = 2.0, .softcap = 1.5, .mask = {5, 150}});
}

TEST(AttentionKernel, KeepsItsHeadWithLargeScores) {
  expect_attention({.queries = 20, .keys = 300, .scale = 60.0, .tolerance = 1e-4});
}

TEST(AttentionKernel, ComputesInEveryType) {
  for (const std::string layout : {"bhsd", "bshd"}) {
    AttentionCase c{.heads = 4,
                    .queries = 30,
                    .keys = 140,
                    .d = 20,
                    .e = 24,
                    .layout = layout,
                    .mask = {1, 4, 30, 140},
                    .threads = 2};
    c.dtype = DType::kFloat64;
    c.tolerance = 1e-13;
    expect_attention(c);
    c.dtype = DType::kFloat16;
    c.tolerance = 2e-3;
    expect_attention(c);
    c.dtype = DType::kBFloat16;
    c.tolerance = 2e-2;
    expect_attention(c);
  }
}

TEST(AttentionKernel, TakesEmptyOperands) {
  expect_attention({.queries = 0});
  expect_attention({.batch = 0});
  expect_attention({.keys = 0});  // nothing to see: zeros
  expect_attention({.heads = 0, .kv_heads = 1});
}

TEST(AttentionKernel, NeverHoldsTheScores) {
  constexpr std::int64_t kTokens = 16384;
  NodeRun run{"Attention",
              {random_tensor({1, 1, 8, 64}, 1), random_tensor({1, kTokens, 8, 64}, 2),
               random_tensor({1, kTokens, 8, 64}, 3)},
              {{"scale", 0.125}, {"layout", std::string("bshd")}},
              {},
              4};
  auto result = run_node(run);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  // Keys and values once more, packed, and a tile a thread; the scores would take 8 GB for all
  // queries.
  EXPECT_LT(result->workspace_bytes, std::size_t{80} << 20);
}

}  // namespace
}  // namespace tutti::cpu
