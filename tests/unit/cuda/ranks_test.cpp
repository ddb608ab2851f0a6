// Ranks that share one card, and ranks on several where there are some: exchanges against the CPU
// backend, failures and deadlines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "rank_plans.h"

namespace tutti::cuda {
namespace {

using ::testing::HasSubstr;

// Every exchange, with pieces of different sizes.
Plan exchanges(int ranks) {
  return plan_of(ranks, R"(graph (%x: f32[2, t, 6, 5]) {
    %piece = ShardSlice(%x) {axis = "cp", ranks = $N, dim = 1, units = dims[t]}
    %twice = Add(%piece, %piece)
    %heads, %plain = AllToAll(%twice, %piece) {axis = "cp", ranks = $N, from_dims = [1, 1],
      from_units = dims[t, t], from_replicas = [1, 1], to_dims = [2, 2], to_units = dims[6, 6],
      to_replicas = [1, 1], sizes = dims[t, t]}
    %sums = CumSum(%heads) {axis = 1, exclusive = 0, reverse = 0}
    %mixed = Mul(%sums, %plain)
    %tokens = AllToAll(%mixed) {axis = "cp", ranks = $N, from_dims = [2], from_units = dims[6],
      from_replicas = [1], to_dims = [1], to_units = dims[t], to_replicas = [1], sizes = dims[6]}
    %whole = AllGather(%tokens) {axis = "cp", ranks = $N, dim = 1, units = dims[t], size = dims[t]}
    %square = Mul(%x, %x)
    %total = AllReduce(%square) {axis = "cp", ranks = $N, op = "sum"}
    %part = ReduceScatter(%square) {axis = "cp", ranks = $N, op = "sum", dim = 1, units = dims[t]}
    %again = AllGather(%part) {axis = "cp", ranks = $N, dim = 1, units = dims[t], size = dims[t]}
    return %whole, %total, %again
  })");
}

// Stops one rank in front of one operator, once, until it is let go.
class Hold final : public RankHooks {
 public:
  Hold(int rank, std::string op, Status result)
      : rank_(rank), op_(std::move(op)), result_(std::move(result)) {}
  Status before_node(int rank, const Node& node) override {
    if (rank != rank_ || node.type() != op_ || has_held_.exchange(true)) return {};
    if (!result_.ok()) return result_;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_open_; });
    return {};
  }
  void open() {
    {
      const std::lock_guard lock(mutex_);
      is_open_ = true;
    }
    changed_.notify_all();
  }

 private:
  const int rank_;
  const std::string op_;
  const Status result_;
  std::atomic<bool> has_held_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

class CudaRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cuda = CudaBackend::create();
    if (!cuda.ok()) GTEST_SKIP() << cuda.status().message();
    cuda_ = *std::move(cuda);
  }

  Result<std::unique_ptr<Instance>> load(int ranks, std::shared_ptr<RankHooks> hooks = nullptr,
                                         int devices = 1) {
    InstanceOptions options;
    options.group.hooks = std::move(hooks);
    return Instance::load(exchanges(ranks), *cuda_, deal_out(ranks, devices), options);
  }

  void expect_right(Instance& instance, int ranks, std::int64_t tokens, int seed) {
    const TensorMap inputs = {{"x", numbers({2, tokens, 6, 5}, seed)}};
    const auto got = instance.infer(inputs);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    const auto cpu = Instance::load(exchanges(ranks), *cpu_);
    ASSERT_TRUE(cpu.ok()) << cpu.status().to_string();
    const auto want = (*cpu)->infer(inputs);
    ASSERT_TRUE(want.ok()) << want.status().to_string();
    for (const auto& [name, tensor] : *want) {
      EXPECT_EQ(got->at(name).to_doubles(), tensor.to_doubles()) << name << " of " << ranks;
    }
    EXPECT_EQ(instance.group().sent_bytes().size(), static_cast<std::size_t>(ranks));
    EXPECT_EQ(instance.group().sent_bytes()[0] > 0, ranks > 1);
  }

  std::unique_ptr<Backend> cuda_;
  std::unique_ptr<Backend> cpu_ = cpu::make_cpu_backend();
};

TEST_F(CudaRanks, ExchangesGiveTheBitsOfTheCpu) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    auto instance = load(ranks);
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    for (int seed = 0; seed < 5; ++seed) expect_right(**instance, ranks, 11, seed);
    // Fewer tokens than ranks: some hold nothing.
    expect_right(**instance, ranks, 3, 9);
    expect_right(**instance, ranks, 11, 10);
  }
}

TEST_F(CudaRanks, ExchangesBetweenCardsGiveTheBitsOfTheCpu) {
  const int devices = cuda_->device_count();
  if (devices < 2) GTEST_SKIP() << "needs two GPUs, there is one";
  for (const int ranks : {2, 3, 4, 8}) {
    auto instance = load(ranks, nullptr, devices);
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    for (int seed = 0; seed < 5; ++seed) expect_right(**instance, ranks, 11, seed);
    expect_right(**instance, ranks, 3, 9);
    for (int seed = 0; seed < 3; ++seed) expect_right(**instance, ranks, 11, seed);
  }
}

TEST_F(CudaRanks, AttentionOverPiecesOfTheKeysIsAttentionOverAll) {
  const std::string text =
      R"(graph (%q: f32[2, 4, t, 16], %k: f32[2, 2, t, 16], %v: f32[2, 2, t, 8]) {
    %kp = ShardSlice(%k) {axis = "cp", ranks = $N, dim = 2, units = dims[t]}
    %vp = ShardSlice(%v) {axis = "cp", ranks = $N, dim = 2, units = dims[t]}
    %a = RingAttention(%q, %kp, %vp) {scale = 0.25, layout = "bhsd", is_causal = 1, axis = "cp",
      ranks = $N, size = dims[t]}
    return %a
  })";
  for (const int ranks : {2, 3}) {
    auto instance = Instance::load(plan_of(ranks, text), *cuda_,
                                   std::vector<int>(static_cast<std::size_t>(ranks), 0));
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    const auto cpu = Instance::load(plan_of(ranks, text), *cpu_);
    ASSERT_TRUE(cpu.ok()) << cpu.status().to_string();
    for (int seed = 0; seed < 3; ++seed) {
      const TensorMap inputs = {{"q", numbers({2, 4, 13, 16}, seed)},
                                {"k", numbers({2, 2, 13, 16}, seed + 1)},
                                {"v", numbers({2, 2, 13, 8}, seed + 2)}};
      const auto got = (*instance)->infer(inputs);
      const auto want = (*cpu)->infer(inputs);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      ASSERT_TRUE(want.ok()) << want.status().to_string();
      EXPECT_THAT(got->at("a").to_doubles(),
                  ::testing::Pointwise(::testing::DoubleNear(1e-4), want->at("a").to_doubles()));
    }
  }
}

// Keys of two sequences, each of which is cut by itself.
TEST_F(CudaRanks, AttentionOverPiecesOfJoinedKeysIsAttentionOverAll) {
  const std::string text =
      R"(graph (%q: f32[2, 4, 6, 16], %a: f32[2, 2, t, 16], %b: f32[2, 2, 5, 16],
             %m: f32[6, t+5]) {
    %ap = ShardSlice(%a) {axis = "cp", ranks = $N, dim = 2, units = dims[t]}
    %bp = ShardSlice(%b) {axis = "cp", ranks = $N, dim = 2, units = dims[5]}
    %k = Concat(%ap, %bp) {axis = 2}
    %y = JoinedRingAttention(%q, %k, %k, %m) {scale = 0.25, layout = "bhsd", axis = "cp",
      ranks = $N, size = dims[t+5], segments = dims[t, 5]}
    return %y
  })";
  for (const int ranks : {1, 2, 3, 8}) {
    SCOPED_TRACE(ranks);
    auto instance = Instance::load(plan_of(ranks, text), *cuda_,
                                   std::vector<int>(static_cast<std::size_t>(ranks), 0));
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    const auto cpu = Instance::load(plan_of(ranks, text), *cpu_);
    ASSERT_TRUE(cpu.ok()) << cpu.status().to_string();
    for (const std::int64_t tokens : {13, 1}) {
      const TensorMap inputs = {{"q", numbers({2, 4, 6, 16}, 1)},
                                {"a", numbers({2, 2, tokens, 16}, 2)},
                                {"b", numbers({2, 2, 5, 16}, 3)},
                                {"m", numbers({6, tokens + 5}, 4)}};
      const auto got = (*instance)->infer(inputs);
      const auto want = (*cpu)->infer(inputs);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      ASSERT_TRUE(want.ok()) << want.status().to_string();
      EXPECT_THAT(got->at("y").to_doubles(),
                  ::testing::Pointwise(::testing::DoubleNear(1e-4), want->at("y").to_doubles()));
    }
  }
}

// Rows that move from rank to rank, and what stands behind the edges.
TEST_F(CudaRanks, HalosBringTheRowsThatTheCpuBrings) {
  for (const std::string edge : {"zero", "lowest", "edge", "reflect", "wrap"}) {
    const std::string windows =
        R"(axis = "cp", ranks = $N, dim = 1, size = dims[t], rows = dims[t+4], units = dims[t+4],
      stride = 1, offset = dims[-2], extent = 1, edge = ")" +
        edge + "\"";
    const std::string text = R"(graph (%x: f32[2, t, 6, 5]) {
    %piece = ShardSlice(%x) {axis = "cp", ranks = $N, dim = 1, units = dims[t]}
    %h = Halo(%piece) {from_units = dims[t], )" +
                             windows + R"(}
    %s = WindowSlice(%x) {)" +
                             windows + R"(}
    %from_pieces = AllGather(%h) {axis = "cp", ranks = $N, dim = 1, units = dims[t+4],
      size = dims[t+4]}
    %from_whole = AllGather(%s) {axis = "cp", ranks = $N, dim = 1, units = dims[t+4],
      size = dims[t+4]}
    return %from_pieces, %from_whole
  })";
    for (const int ranks : {1, 2, 3, 8}) {
      auto instance = Instance::load(plan_of(ranks, text), *cuda_,
                                     std::vector<int>(static_cast<std::size_t>(ranks), 0));
      ASSERT_TRUE(instance.ok()) << instance.status().to_string();
      const auto cpu = Instance::load(plan_of(ranks, text), *cpu_);
      ASSERT_TRUE(cpu.ok()) << cpu.status().to_string();
      const TensorMap inputs = {{"x", numbers({2, 5, 6, 5}, ranks)}};
      const auto got = (*instance)->infer(inputs);
      const auto want = (*cpu)->infer(inputs);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      ASSERT_TRUE(want.ok()) << want.status().to_string();
      for (const auto& [name, tensor] : *want) {
        EXPECT_EQ(got->at(name).to_doubles(), tensor.to_doubles())
            << name << ", " << edge << ", " << ranks << " ranks";
      }
    }
  }
}

TEST_F(CudaRanks, AStalledRankCostsItsRequestTheDeadlineAndTheNextOneWorks) {
  const auto hold = std::make_shared<Hold>(1, "CumSum", Status());
  auto instance = load(2, hold);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  RunOptions options;
  options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  const auto late = (*instance)->infer({{"x", numbers({2, 11, 6, 5}, 1)}}, options);
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded) << late.status().to_string();
  EXPECT_THAT(late.status().message(), HasSubstr("rank 1"));
  hold->open();
  expect_right(**instance, 2, 11, 2);
}

TEST_F(CudaRanks, AFailingRankFailsItsRequestAndTheGroupIsMadeAnew) {
  auto instance = load(2, std::make_shared<Hold>(1, "CumSum", internal_error("the card fell out")));
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const auto failed = (*instance)->infer({{"x", numbers({2, 11, 6, 5}, 1)}});
  EXPECT_EQ(failed.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.status().message(), HasSubstr("rank 1 of 2"));
  EXPECT_THAT(failed.status().message(), HasSubstr("the card fell out"));
  expect_right(**instance, 2, 11, 2);
}

// Lets ranks record and replay, and disturbs one replay of one rank.
class ReplayFault final : public RankHooks {
 public:
  ReplayFault(int rank, std::function<Status()> action) : rank_(rank), action_(std::move(action)) {}
  Status before_node(int, const Node&) override { return {}; }
  bool watches_nodes() const override { return false; }
  Status before_replay(int rank) override {
    ++replays;
    if (rank != rank_ || !is_armed.exchange(false)) return {};
    return action_();
  }
  std::atomic<bool> is_armed{false};
  std::atomic<int> replays{0};

 private:
  const int rank_;
  const std::function<Status()> action_;
};

TEST_F(CudaRanks, ARankThatFailsInFrontOfTheGraphFailsItsRequestAndTheGroupIsMadeAnew) {
  for (const int devices : {1, cuda_->device_count()}) {
    for (const int rank : {0, 1}) {
      const auto fault =
          std::make_shared<ReplayFault>(rank, [] { return internal_error("the card fell out"); });
      auto instance = load(3, fault, devices);
      ASSERT_TRUE(instance.ok()) << instance.status().to_string();
      for (int seed = 0; seed < 4; ++seed) expect_right(**instance, 3, 11, seed);
      EXPECT_EQ(fault->replays, 3 * 3);
      fault->is_armed = true;
      const auto failed = (*instance)->infer({{"x", numbers({2, 11, 6, 5}, 1)}});
      EXPECT_EQ(failed.status().code(), StatusCode::kUnavailable);
      EXPECT_THAT(failed.status().message(), HasSubstr(str_cat("rank ", rank, " of 3")));
      EXPECT_THAT(failed.status().message(), HasSubstr("the card fell out"));
      for (int seed = 0; seed < 4; ++seed) expect_right(**instance, 3, 11, seed);
    }
  }
}

TEST_F(CudaRanks, ARankThatStallsInFrontOfTheGraphCostsItsRequestTheDeadline) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = false;
  const auto fault = std::make_shared<ReplayFault>(1, [&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_open; });
    return Status();
  });
  auto instance = load(2, fault, cuda_->device_count());
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  for (int seed = 0; seed < 3; ++seed) expect_right(**instance, 2, 11, seed);
  fault->is_armed = true;
  RunOptions options;
  options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  const auto late = (*instance)->infer({{"x", numbers({2, 11, 6, 5}, 1)}}, options);
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded) << late.status().to_string();
  EXPECT_THAT(late.status().message(), HasSubstr("rank 1"));
  {
    const std::lock_guard lock(mutex);
    is_open = true;
  }
  changed.notify_all();
  for (int seed = 0; seed < 4; ++seed) expect_right(**instance, 2, 11, seed);
}

TEST_F(CudaRanks, AnIndexOutOfRangeFailsItsRequestAloneAndIsNamed) {
  const auto pick = [](std::int64_t index) {
    return TensorMap{{"x", numbers({5}, 1)}, {"i", Tensor::ints({{index}})}};
  };
  auto instance = Instance::load(plan_of(1, R"(graph (%x: f32[5], %i: i64[1]) {
    %y = Gather(%x, %i) {axis = 0} @pick
    return %y
  })"),
                                 *cuda_);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE((*instance)->infer(pick(-5)).ok());
  const auto bad = (*instance)->infer(pick(7));
  EXPECT_EQ(bad.status().code(), StatusCode::kInvalidArgument) << bad.status().to_string();
  EXPECT_THAT(bad.status().message(), HasSubstr("pick"));
  EXPECT_THAT(bad.status().message(), HasSubstr("index 7 is not in [-5, 5)"));
  const auto good = (*instance)->infer(pick(4));
  ASSERT_TRUE(good.ok()) << good.status().to_string();
  EXPECT_EQ(good->at("y").to_doubles()[0], numbers({5}, 1).to_doubles()[4]);
}

TEST_F(CudaRanks, PrologueResultsStayOnTheDevice) {
  Plan plan = plan_of(2, R"(graph @main (%x: f32[2, t], %context: f32[2, 1]) {
    %y = Mul(%x, %context)
    return %y
  })");
  plan.prologue = plan_of(2, R"(graph @prologue (%text: f32[2, 8]) {
    %context = Reduce(%text) {kind = "sum", axes = [1], keepdims = 1}
    return %context
  })")
                      .main;
  plan.inputs = {{"x", DType::kFloat32, {2, Dim::symbol("t")}}, {"text", DType::kFloat32, {2, 8}}};
  plan.invariant_inputs = {"text"};
  auto instance = Instance::load(std::move(plan), *cuda_, {0, 0});
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  for (int step = 0; step < 12; ++step) {
    // Two prompts take turns.
    const Tensor text = numbers({2, 8}, step % 2);
    const Tensor x = numbers({2, 6}, step);
    const auto outputs = (*instance)->infer({{"x", x}, {"text", text}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    const std::vector<double> t = text.to_doubles();
    const std::vector<double> v = x.to_doubles();
    const std::vector<double> y = outputs->at("y").to_doubles();
    for (std::size_t i = 0; i < y.size(); ++i) {
      double sum = 0;
      for (std::size_t e = 0; e < 8; ++e) sum += t[i / 6 * 8 + e];
      EXPECT_EQ(y[i], v[i] * sum);
    }
  }
  EXPECT_EQ((*instance)->prologue_stats().misses, 2);
}

}  // namespace
}  // namespace tutti::cuda
