// What the ranks exchange, written straight to where it is read, against storing it first: the
// same bits. On ranks that share a card and on several cards.
#include <gtest/gtest.h>

#include <cstdlib>

#include "rank_plans.h"

namespace tutti::cuda {
namespace {

struct Case {
  std::string type = "f32";
  int ranks = 2;
  int heads = 8;
  int kv_heads = 4;
  int size = 16;  // of a head
};

std::string filled(std::string text, const Case& given) {
  const auto put = [&](const std::string& name, const std::string& with) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos;) {
      text.replace(at, name.size(), with);
    }
  };
  // Longer names first.
  const int replicas = given.kv_heads < given.ranks ? given.ranks / given.kv_heads : 1;
  put("$ROPE",
      " %a, %b = Split(%n) {axis = 3, sizes = dims[$HALF, $HALF]}\n %m = Neg(%b)\n"
      " %t = Concat(%m, %a) {axis = 3}\n %l = Mul(%n, %c)\n %r = Mul(%t, %s)\n"
      " %y = Add(%l, %r)\n return %y\n");
  put("$HALF", std::to_string(given.size / 2));
  put("$PIECE", "part(t,$N,rank.cp)");
  put("$TYPE", given.type);
  put("$ALLQ", std::to_string(given.heads * given.size));
  put("$ALL3", std::to_string(3 * given.heads * given.size));
  put("$REPLICAS", std::to_string(replicas));
  put("$H", std::to_string(given.heads));
  put("$K", std::to_string(given.kv_heads));
  put("$D", std::to_string(given.size));
  return text;
}

// Inputs of all graphs; %q0, %k0, %v0 and tables are this rank's tokens.
constexpr const char* kInputs =
    R"(graph (%x: f32[b, t, $H, $D], %z: f32[b, t, $K, $D], %wf: f32[$D], %cf: f32[t, 1, $D]) {
 %xp = ShardSlice(%x) {axis = "cp", ranks = $N, dim = 1, units = dims[t]}
 %zp = ShardSlice(%z) {axis = "cp", ranks = $N, dim = 1, units = dims[t]}
 %cp = ShardSlice(%cf) {axis = "cp", ranks = $N, dim = 0, units = dims[t]}
 %q0 = Cast(%xp) {to = "$TYPE"}
 %k0 = Cast(%zp) {to = "$TYPE"}
 %c = Cast(%cp) {to = "$TYPE"}
 %s = Sin(%c)
 %w = Cast(%wf) {to = "$TYPE"}
)";

// A norm of each head and rotary embedding of queries and keys; values as they come. Twice, so that
// memory is used again. Then heads go back to tokens behind a gate.
std::string layers() {
  std::string text = kInputs;
  std::string q = "q0";
  for (const char* i : {"1", "2"}) {
    const auto fused = [&](const std::string& to, const std::string& from, const char* heads) {
      const std::string x = str_cat("%x: $TYPE[b, $PIECE, ", heads, ", $D]");
      text += str_cat(" %", to, " = Fused(%", from, ", %w, %c, %s) {body = graph (", x,
                      ", %w: $TYPE[$D], %c: $TYPE[$PIECE, 1, $D], %s: $TYPE[$PIECE, 1, $D]) {\n",
                      " %n = RMSNormalization(%x, %w) {axis = 3, epsilon = 1e-6}\n$ROPE }}\n");
    };
    fused(str_cat("q", i, "r"), q, "$H");
    fused(str_cat("k", i, "r"), "k0", "$K");
    std::string rest = R"( %khI, %vhI, %qhI = AllToAll(%kIr, %k0, %qIr) {axis = "cp", ranks = $N,
   from_dims = [1, 1, 1], from_units = dims[t, t, t], from_replicas = [1, 1, 1], to_dims = [2, 2, 2],
   to_units = dims[$K, $K, $K], to_replicas = [$REPLICAS, $REPLICAS, 1], sizes = dims[t, t, t]}
 %aI = Attention(%qhI, %khI, %vhI) {scale = 0.25, layout = "bshd"}
 %gI = Sigmoid(%qhI)
 %oI = Mul(%aI, %gI)
 %bI = AllToAll(%oI) {axis = "cp", ranks = $N, from_dims = [2], from_units = dims[$K],
   from_replicas = [1], to_dims = [1], to_units = dims[t], to_replicas = [1], sizes = dims[$H]}
)";
    for (std::size_t at = 0; (at = rest.find('I', at)) != std::string::npos; ++at) {
      const bool is_ours = at > 0 && std::islower(rest[at - 1]) != 0;
      if (is_ours) rest.replace(at, 1, i);
    }
    text += rest;
    q = str_cat("b", i);
  }
  return text + R"( %y2 = Cast(%b2) {to = "f32"}
 %y = AllGather(%y2) {axis = "cp", ranks = $N, dim = 1, units = dims[t], size = dims[t]}
 return %y
})";
}

// A norm over all heads of a token; rows are cut into heads on their way.
constexpr const char* kAllHeads = R"( %q1 = Reshape(%q0) {shape = dims[b, $PIECE, $ALLQ]}
 %g = Concat(%w, $WS) {axis = 0}
 %q2 = Fused(%q1, %g, %c, %s) {body = graph (%x: $TYPE[b, $PIECE, $ALLQ], %g: $TYPE[$ALLQ],
   %c: $TYPE[$PIECE, 1, $D], %s: $TYPE[$PIECE, 1, $D]) {
   %o = RMSNormalization(%x, %g) {axis = 2, epsilon = 1e-6}
   %n = Reshape(%o) {shape = dims[b, $PIECE, $H, $D]}
$ROPE }}
 %qh = AllToAll(%q2) {axis = "cp", ranks = $N, from_dims = [1], from_units = dims[t],
   from_replicas = [1], to_dims = [2], to_units = dims[$H], to_replicas = [1], sizes = dims[t]}
 %y1 = Cast(%qh) {to = "f32"}
 %y = AllGather(%y1) {axis = "cp", ranks = $N, dim = 2, units = dims[$H], size = dims[$H]}
 return %y
})";

// Parts of one product's result, which only move, and a result whose rows lie elsewhere.
constexpr const char* kMoves = R"( %q1 = Reshape(%q0) {shape = dims[b, $PIECE, $ALLQ]}
 %q3 = Concat(%q1, %q1, %q1) {axis = 2}
 %q4 = Mul(%q3, %q3)
 %p, %q, %r = Split(%q4) {axis = 2, sizes = dims[$ALLQ, $ALLQ, $ALLQ]}
 %ph = Reshape(%p) {shape = dims[b, $PIECE, $H, $D]}
 %qh = Reshape(%q) {shape = dims[b, $PIECE, $H, $D]}
 %rh = Reshape(%r) {shape = dims[b, $PIECE, $H, $D]}
 %u = Transpose(%q0) {perm = [0, 2, 1, 3]}
 %a, %d, %e, %f = AllToAll(%ph, %qh, %rh, %u) {axis = "cp", ranks = $N, from_dims = [1, 1, 1, 2],
   from_units = dims[t, t, t, t], from_replicas = [1, 1, 1, 1], to_dims = [2, 2, 2, 1],
   to_units = dims[$H, $H, $H, $H], to_replicas = [1, 1, 1, 1], sizes = dims[t, t, t, t]}
 %ad = Add(%a, %d)
 %de = Mul(%ad, %e)
 %ft = Transpose(%f) {perm = [0, 2, 1, 3]}
 %i = Sub(%de, %ft)
 %y1 = Cast(%i) {to = "f32"}
 %y = AllGather(%y1) {axis = "cp", ranks = $N, dim = 2, units = dims[$H], size = dims[$H]}
 return %y
})";

// Keys that all ranks get.
constexpr const char* kGathered = R"( %k1 = Fused(%k0, %w, %c, %s) {body = graph (
   %x: $TYPE[b, $PIECE, $K, $D], %w: $TYPE[$D], %c: $TYPE[$PIECE, 1, $D],
   %s: $TYPE[$PIECE, 1, $D]) {
   %n = RMSNormalization(%x, %w) {axis = 3, epsilon = 1e-6}
$ROPE }}
 %v1 = Neg(%k0)
 %k, %v, %o = AllGather(%k1, %v1, %k0) {axis = "cp", ranks = $N, dim = 1, units = dims[t],
   size = dims[t]}
 %p = Mul(%k, %v)
 %y1 = Add(%p, %o)
 %y = Cast(%y1) {to = "f32"}
 return %y
})";

class CudaFusedExchange : public ::testing::Test {
 protected:
  void SetUp() override {
    on_ = backend("on");
    if (on_ == nullptr) GTEST_SKIP() << reason_;
    off_ = backend("off");
  }
  std::unique_ptr<Backend> backend(const char* fused, const char* way = "push",
                                   const char* pipelined = "auto") {
    setenv("TUTTI_CUDA_FUSE_EXCHANGE", fused, 1);
    setenv("TUTTI_CUDA_EXCHANGE", way, 1);
    setenv("TUTTI_CUDA_PIPELINE", pipelined, 1);
    auto made = CudaBackend::create();
    unsetenv("TUTTI_CUDA_FUSE_EXCHANGE");
    unsetenv("TUTTI_CUDA_EXCHANGE");
    unsetenv("TUTTI_CUDA_PIPELINE");
    if (made.ok()) return *std::move(made);
    reason_ = made.status().message();
    return nullptr;
  }

  static TensorMap inputs_of(const Case& given, std::int64_t batch, std::int64_t tokens, int seed) {
    return {{"x", numbers({batch, tokens, given.heads, given.size}, seed)},
            {"z", numbers({batch, tokens, given.kv_heads, given.size}, seed + 1)},
            {"wf", numbers({given.size}, seed + 2)},
            {"cf", numbers({tokens, 1, given.size}, seed + 3)}};
  }

  static std::int64_t count(const std::string& op, Instance& instance, const TensorMap& inputs) {
    RunOptions options;
    options.is_profiled = true;
    EXPECT_TRUE(instance.infer(inputs, options).ok());
    std::int64_t calls = 0;
    const std::vector<RankProfile> profiles = instance.group().take_profiles();
    for (const OpTime& row : profiles.at(0)) {
      if (row.op == op) calls += row.calls;
    }
    return calls;
  }

  // `fused`: exchanges that are, the last AllGather behind its Cast among them.
  void expect_same(const std::string& text, const Case& given, std::int64_t batch,
                   std::int64_t tokens, std::int64_t fused, int devices = 1) {
    SCOPED_TRACE(str_cat(given.type, ", ", given.ranks, " ranks, ", given.heads, "/",
                         given.kv_heads, " heads, batch ", batch, ", ", tokens, " tokens"));
    const auto plan = [&] { return plan_of(given.ranks, filled(text, given)); };
    auto on = Instance::load(plan(), *on_, deal_out(given.ranks, devices));
    ASSERT_TRUE(on.ok()) << on.status().to_string();
    auto off = Instance::load(plan(), *off_, deal_out(given.ranks, devices));
    ASSERT_TRUE(off.ok()) << off.status().to_string();
    for (int seed = 0; seed < 5; ++seed) {  // step by step, recorded, replayed
      const TensorMap inputs = inputs_of(given, batch, tokens, seed);
      const auto got = (*on)->infer(inputs);
      const auto want = (*off)->infer(inputs);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      ASSERT_TRUE(want.ok()) << want.status().to_string();
      const auto a = got->at("y").to_doubles();
      const auto b = want->at("y").to_doubles();
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << "element " << i;
      EXPECT_EQ((*on)->group().sent_bytes(), (*off)->group().sent_bytes());
      if (seed == 0 && given.type == "f32") expect_like_cpu(given, text, inputs, *got);
    }
    const TensorMap inputs = inputs_of(given, batch, tokens, 0);
    EXPECT_EQ(count("FusedExchange", **on, inputs), fused);
    EXPECT_EQ(count("FusedExchange", **off, inputs), 0);
    EXPECT_EQ(count("Fused", **on, inputs), stored_);
  }

  void expect_like_cpu(const Case& given, const std::string& text, const TensorMap& inputs,
                       const TensorMap& got) {
    const auto host = Instance::load(plan_of(given.ranks, filled(text, given)), *cpu_);
    ASSERT_TRUE(host.ok()) << host.status().to_string();
    const auto want = (*host)->infer(inputs);
    ASSERT_TRUE(want.ok()) << want.status().to_string();
    const auto a = got.at("y").to_doubles();
    const auto b = want->at("y").to_doubles();
    double most = 0;
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, std::abs(b[i]));
      worst = std::max(worst, std::abs(a[i] - b[i]));
    }
    EXPECT_LE(worst, 1e-4 * most);
  }

  static std::string all_heads(const Case& given) {
    std::string text = str_cat(kInputs, kAllHeads);
    std::string more = "%w";
    for (int i = 2; i < given.heads; ++i) more += ", %w";
    return text.replace(text.find("$WS"), 3, more);
  }

  std::int64_t stored_ = 0;  // Fused nodes that are expected to be kernels of their own
  std::string reason_;
  std::unique_ptr<Backend> on_;
  std::unique_ptr<Backend> off_;
  std::unique_ptr<Backend> cpu_ = cpu::make_cpu_backend();
};

TEST_F(CudaFusedExchange, HeadsGoStraightToTheirRank) {
  expect_same(layers(), {"f32", 1}, 1, 5, 5);
  expect_same(layers(), {"f32", 2}, 1, 11, 5);
  expect_same(layers(), {"bf16", 2}, 2, 9, 5);
  expect_same(layers(), {"f32", 4}, 2, 13, 5);
}

TEST_F(CudaFusedExchange, HeadsAndTokensNeedNotDivide) {
  expect_same(layers(), {"f32", 3, 10, 5}, 2, 10, 5);
  expect_same(layers(), {"bf16", 3, 5, 5, 24}, 1, 7, 5);
  expect_same(layers(), {"f32", 4, 3, 3, 10}, 1, 6, 5);  // a rank without heads
  expect_same(layers(), {"f32", 4, 8, 4}, 1, 3, 5);      // one without tokens
}

TEST_F(CudaFusedExchange, HeadsThatSeveralRanksHoldGoToEachOfThem) {
  Case given{"f32", 4, 4, 2};
  std::string text = layers();
  // Queries by head, the two key heads on two ranks each.
  for (std::size_t at = 0; (at = text.find("dims[$K, $K, $K]", at)) != std::string::npos;) {
    text.replace(at, 16, "dims[$K, $K, $H]");
  }
  for (std::size_t at = 0; (at = text.find("from_units = dims[$K]", at)) != std::string::npos;) {
    text.replace(at, 21, "from_units = dims[$H]");
  }
  expect_same(text, given, 1, 9, 5);
  given.ranks = 8;
  given.heads = 8;
  given.type = "bf16";
  expect_same(text, given, 2, 17, 5);
}

TEST_F(CudaFusedExchange, RowsAreCutIntoHeads) {
  for (const Case& given : {Case{"f32", 2, 4, 4}, Case{"bf16", 3, 5, 5, 32}}) {
    expect_same(all_heads(given), given, 1, 9, 2);
    expect_same(all_heads(given), given, 2, 4, 2);
  }
  // Words of four elements do not fill heads of ten: they are stored first.
  stored_ = 1;
  const Case odd{"f32", 2, 2, 2, 10};
  expect_same(all_heads(odd), odd, 1, 9, 1);
}

TEST_F(CudaFusedExchange, WhatOnlyMovesDoesSoOnce) {
  expect_same(str_cat(kInputs, kMoves), {"f32", 2, 4, 4}, 2, 9, 2);
  expect_same(str_cat(kInputs, kMoves), {"bf16", 3, 4, 4}, 1, 8, 2);
}

TEST_F(CudaFusedExchange, KeysGoToAllRanks) {
  expect_same(str_cat(kInputs, kGathered), {"f32", 2}, 2, 9, 1);
  expect_same(str_cat(kInputs, kGathered), {"bf16", 3}, 1, 10, 1);
  expect_same(str_cat(kInputs, kGathered), {"f32", 4}, 1, 3, 1);
}

// Heads in pieces: each piece's rows are computed as they are sent.
TEST_F(CudaFusedExchange, PiecesOfTheHeadsToo) {
  on_ = backend("on", "push", "on");
  off_ = backend("off", "push", "on");
  std::string text = layers();
  for (const char* i : {"1", "2"}) {  // no gate between attention and exchange
    const std::string gate = str_cat(" %g", i, " = Sigmoid(%qh", i, ")\n %o", i, " = Mul(%a", i,
                                     ", %g", i, ")\n %b", i, " = AllToAll(%o", i, ")");
    const std::size_t at = text.find(gate);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, gate.size(), str_cat(" %b", i, " = AllToAll(%a", i, ")"));
  }
  // Keys in as many pieces as queries, in fewer, and one for all pieces.
  for (const auto& [heads, kv_heads] : {std::pair(8, 8), std::pair(16, 4), std::pair(8, 2)}) {
    const Case given{"f32", 2, heads, kv_heads};
    expect_same(text, given, 1, 11, 1);
  }
  expect_same(text, {"bf16", 4, 16, 16, 32}, 1, 13, 1);
  expect_same(text, {"f32", 2, 16, 4}, 1, 12, 1, on_->device_count());
  expect_same(text, {"f32", 4, 16, 16}, 2, 3, 1);  // a rank without tokens goes another way
}

TEST_F(CudaFusedExchange, BetweenCardsToo) {
  const int devices = on_->device_count();
  if (devices < 2) GTEST_SKIP() << "needs two GPUs, there is one";
  expect_same(layers(), {"bf16", 2, 8, 4, 64}, 1, 301, 5, devices);
  expect_same(layers(), {"f32", 3, 10, 5}, 2, 10, 5, devices);
  expect_same(str_cat(kInputs, kGathered), {"bf16", 4}, 1, 70, 1, devices);
}

TEST_F(CudaFusedExchange, LeavesRowsAloneThatAreLessThanWhatMemoryMoves) {
  stored_ = 1;
  expect_same(str_cat(kInputs, kGathered), {"f32", 2, 4, 4, 6}, 1, 9, 0);
}

TEST_F(CudaFusedExchange, NeedsThatBoxesArePushed) {
  const Case given;
  on_ = backend("on", "pull");
  stored_ = 4;
  expect_same(layers(), given, 1, 11, 0);
  const int devices = on_->device_count();
  if (devices < 2) GTEST_SKIP() << "NCCL needs two GPUs, there is one";
  on_ = backend("on", "nccl");
  expect_same(layers(), given, 1, 11, 0, devices);
}

}  // namespace
}  // namespace tutti::cuda
