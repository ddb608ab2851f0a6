// Every way to compute an attention, also those that no measurement would choose, against plain
// sums in double precision.
#include "attention_problems.h"
#include "ways.h"

namespace tutti::cuda {
namespace {

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

}  // namespace
}  // namespace tutti::cuda
