// Attention whose exchanges overlap with it, on ranks that share a card and on several cards.
#include <gtest/gtest.h>

#include <cstdlib>

#include "rank_plans.h"

namespace tutti::cuda {
namespace {

// Queries of `heads`, keys and values of `kv_heads`, the latter behind others that every rank has.
std::string layer(const std::string& type, int heads, int kv_heads, int ranks) {
  const std::string x = str_cat(type, "[1, t, ", heads, ", 64]");
  const std::string y = str_cat(type, "[1, t, ", kv_heads, ", 64]");
  const std::string w = str_cat(type, "[1, 5, ", kv_heads / ranks, ", 64]");
  const std::string units = str_cat("dims[", kv_heads, ", ", kv_heads, ", ", kv_heads, "]");
  std::string text = str_cat("graph (%x: f32[1, t, ", heads, ", 64], %z: f32[1, t, ", kv_heads,
                             ", 64], %w: f32[1, 5, ", kv_heads / ranks, ", 64]) {\n");
  text += R"( %xp = ShardSlice(%x) {axis = "cp", ranks = $N, dim = 1, units = dims[t]}
 %zp = ShardSlice(%z) {axis = "cp", ranks = $N, dim = 1, units = dims[t]}
 %q = Cast(%xp) {to = "TYPE"}
 %k = Cast(%zp) {to = "TYPE"}
 %v = Mul(%k, %k)
 %o = Cast(%w) {to = "TYPE"}
 %kh, %vh, %qh = AllToAll(%k, %v, %q) {axis = "cp", ranks = $N, from_dims = [1, 1, 1],
   from_units = dims[t, t, t], from_replicas = [1, 1, 1], to_dims = [2, 2, 2],
   to_units = UNITS, to_replicas = [1, 1, 1], sizes = dims[t, t, t]}
 %ka = Concat(%o, %kh) {axis = 1}
 %va = Concat(%vh, %o) {axis = 1}
 %a = Attention(%qh, %ka, %va) {scale = 0.125, layout = "bshd"}
 %b = AllToAll(%a) {axis = "cp", ranks = $N, from_dims = [2], from_units = dims[HEADS],
   from_replicas = [1], to_dims = [1], to_units = dims[t], to_replicas = [1], sizes = dims[HEADS]}
 %c = Cast(%b) {to = "f32"}
 %y = AllGather(%c) {axis = "cp", ranks = $N, dim = 1, units = dims[t], size = dims[t]}
 return %y
})";
  const auto put = [&](const std::string& name, const std::string& with) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos;) {
      text.replace(at, name.size(), with);
    }
  };
  put("TYPE", type);
  put("UNITS", units);
  put("HEADS", std::to_string(heads));
  return text;
}

class CudaPipelines : public ::testing::Test {
 protected:
  void SetUp() override {
    on_ = backend("on");
    if (on_ == nullptr) GTEST_SKIP() << reason_;
    off_ = backend("off");
  }
  std::unique_ptr<Backend> backend(const char* pipelining) {
    setenv("TUTTI_CUDA_PIPELINE", pipelining, 1);
    auto made = CudaBackend::create();
    unsetenv("TUTTI_CUDA_PIPELINE");
    if (made.ok()) return *std::move(made);
    reason_ = made.status().message();
    return nullptr;
  }

  void expect_same(const std::string& type, int heads, int kv_heads, int ranks, int devices,
                   std::int64_t tokens, double tolerance) {
    expect_same(*on_, type, heads, kv_heads, ranks, devices, tokens, tolerance);
  }
  void expect_same(Backend& on, const std::string& type, int heads, int kv_heads, int ranks,
                   int devices, std::int64_t tokens, double tolerance) {
    const auto plan = [&] { return plan_of(ranks, layer(type, heads, kv_heads, ranks)); };
    auto piped = Instance::load(plan(), on, deal_out(ranks, devices));
    ASSERT_TRUE(piped.ok()) << piped.status().to_string();
    auto plain = Instance::load(plan(), *off_, deal_out(ranks, devices));
    ASSERT_TRUE(plain.ok()) << plain.status().to_string();
    auto cpu = Instance::load(plan(), *cpu_);
    ASSERT_TRUE(cpu.ok()) << cpu.status().to_string();
    for (int seed = 0; seed < 5; ++seed) {  // step by step, recorded, replayed
      const TensorMap inputs = {{"x", numbers({1, tokens, heads, 64}, seed)},
                                {"z", numbers({1, tokens, kv_heads, 64}, seed + 1)},
                                {"w", numbers({1, 5, kv_heads / ranks, 64}, seed + 2)}};
      const auto got = (*piped)->infer(inputs);
      const auto want = (*plain)->infer(inputs);
      const auto host = (*cpu)->infer(inputs);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      ASSERT_TRUE(want.ok()) << want.status().to_string();
      ASSERT_TRUE(host.ok()) << host.status().to_string();
      expect_near(*got, *want, tolerance);
      expect_near(*got, *host, tolerance);
    }
  }

  static void expect_near(const TensorMap& got, const TensorMap& want, double tolerance) {
    const auto a = got.at("y").to_doubles();
    const auto b = want.at("y").to_doubles();
    ASSERT_EQ(a.size(), b.size());
    double most = 0;
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, std::abs(b[i]));
      worst = std::max(worst, std::abs(a[i] - b[i]));
    }
    EXPECT_LE(worst, tolerance * most);
  }

  std::string reason_;
  std::unique_ptr<Backend> on_;
  std::unique_ptr<Backend> off_;
  std::unique_ptr<Backend> cpu_ = cpu::make_cpu_backend();
};

TEST_F(CudaPipelines, GiveWhatTheirNodesGiveOneByOne) {
  expect_same("f32", 8, 8, 2, 1, 70, 1e-4);
  expect_same("f32", 8, 2, 2, 1, 33, 1e-4);   // one kv head a rank: its pieces share it
  expect_same("f32", 16, 4, 2, 1, 33, 1e-4);  // two kv heads, four pieces
  expect_same("f32", 16, 16, 4, 1, 41, 1e-4);
}

TEST_F(CudaPipelines, GiveItIn16BitsToo) {
  expect_same("bf16", 32, 8, 2, 1, 300, 2e-2);
  expect_same("bf16", 32, 8, 4, 1, 3, 2e-2);  // some ranks hold no token
}

TEST_F(CudaPipelines, OfOnePieceSendResultsStraightToTheRanks) {
  const auto automatic = backend("auto");
  ASSERT_NE(automatic, nullptr) << reason_;
  expect_same(*automatic, "f32", 8, 8, 2, 1, 70, 1e-4);
  expect_same(*automatic, "f32", 12, 12, 4, 1, 6, 1e-4);  // three heads, tokens that do not divide
  expect_same(*automatic, "f32", 6, 6, 3, 1, 2, 1e-4);    // a rank without tokens
  expect_same(*automatic, "bf16", 32, 8, 4, 1, 35, 2e-2);
}

TEST_F(CudaPipelines, CopyResultsWhereThatIsAskedFor) {
  setenv("TUTTI_CUDA_FUSE_EXCHANGE", "off", 1);
  const auto copying = backend("on");
  unsetenv("TUTTI_CUDA_FUSE_EXCHANGE");
  ASSERT_NE(copying, nullptr) << reason_;
  expect_same(*copying, "f32", 16, 4, 2, 1, 33, 1e-4);
  expect_same(*copying, "bf16", 32, 8, 4, 1, 35, 2e-2);
}

TEST_F(CudaPipelines, BetweenCardsToo) {
  const int devices = on_->device_count();
  if (devices < 2) GTEST_SKIP() << "needs two GPUs, there is one";
  expect_same("f32", 8, 8, 2, devices, 70, 1e-4);
  expect_same("bf16", 32, 8, 2, devices, 3000, 2e-2);
  expect_same("bf16", 32, 8, 4, devices, 300, 2e-2);
}

TEST_F(CudaPipelines, AreUsedWhereTheyPay) {
  // Of what they compute nothing shows it; a profile does.
  auto piped = Instance::load(plan_of(2, layer("f32", 8, 8, 2)), *on_, {0, 0});
  ASSERT_TRUE(piped.ok()) << piped.status().to_string();
  const TensorMap inputs = {{"x", numbers({1, 70, 8, 64}, 1)},
                            {"z", numbers({1, 70, 8, 64}, 2)},
                            {"w", numbers({1, 5, 4, 64}, 3)}};
  const auto count = [&](Instance& instance) {
    RunOptions options;
    options.is_profiled = true;
    EXPECT_TRUE(instance.infer(inputs, options).ok());
    std::int64_t calls = 0;
    const std::vector<RankProfile> profiles = instance.group().take_profiles();
    for (const OpTime& row : profiles.at(0)) {
      if (row.op == "PipelinedAttention") calls += row.calls;
    }
    return calls;
  };
  EXPECT_EQ(count(**piped), 1);
  auto plain = Instance::load(plan_of(2, layer("f32", 8, 8, 2)), *off_, {0, 0});
  ASSERT_TRUE(plain.ok()) << plain.status().to_string();
  EXPECT_EQ(count(**plain), 0);
}

}  // namespace
}  // namespace tutti::cuda
