// Results of attention that are written to where the ranks want them: the places against the boxes
// of the exchange, and the kernels against results in one tensor.
#include "backends/cuda/attention_return.h"

#include <numeric>

#include "attention_problems.h"
#include "ways.h"

namespace tutti::cuda {
namespace {

struct Case {
  int ranks = 2;
  std::int64_t batch = 1, tokens = 0, heads = 0, size = 8;  // heads of all ranks
  std::int64_t units = 0;                                   // of tokens; 0: each is one
};

std::vector<TransferPlan> plans_of(const Case& c) {
  TransferOperand operand;
  operand.dims = {c.batch, c.tokens, c.heads, c.size};
  operand.element_size = 2;
  operand.from = PieceSplit{2, c.heads, 1};
  operand.to = PieceSplit{1, c.units == 0 ? c.tokens : c.units, 1};
  std::vector<TransferPlan> plans;
  for (int rank = 0; rank < c.ranks; ++rank) {
    auto plan = make_transfer_plan({&operand, 1}, c.ranks, rank);
    EXPECT_TRUE(plan.ok()) << plan.status().to_string();
    plans.push_back(*std::move(plan));
  }
  return plans;
}

AttentionProblem attention_of(const Case& c) {
  return problem_of(DType::kBFloat16, c.batch, c.heads / c.ranks, c.heads / c.ranks, c.tokens,
                    c.tokens, c.size, true);
}

// By rank, elements that rank `self` writes there; 0 where it writes nothing.
using Targets = std::vector<std::vector<std::int64_t>>;

Targets empty_targets(const Case& c) {
  const auto all = static_cast<std::size_t>(c.batch * c.tokens * c.heads * c.size);
  return Targets(static_cast<std::size_t>(c.ranks), std::vector<std::int64_t>(all, 0));
}

// Element i of the results is i + 1.
Targets through_boxes(const Case& c, const std::vector<TransferPlan>& plans, std::size_t self) {
  Targets targets = empty_targets(c);
  for (std::size_t peer = 0; peer < plans.size(); ++peer) {
    const auto& send = plans[self].exchange.send[peer];
    const auto& receive = plans[peer].exchange.receive[self];
    for (std::size_t r = 0; r < send.size(); ++r) {
      const std::int64_t runs = send[r].byte_size() / send[r].run;
      for (std::int64_t i = 0; i < runs; ++i) {
        std::int64_t from = static_cast<std::int64_t>(send[r].offset);
        std::int64_t to = static_cast<std::int64_t>(receive[r].offset);
        std::int64_t rest = i;
        for (std::size_t d = send[r].sizes.size(); d-- > 0;) {
          const std::int64_t at = rest % send[r].sizes[d];
          rest /= send[r].sizes[d];
          from += at * send[r].strides[d];
          to += at * receive[r].strides[d];
        }
        const auto target = targets[peer].begin() + to / 2;
        std::iota(target, target + send[r].run / 2, from / 2 + 1);
      }
    }
  }
  return targets;
}

Targets through_places(const Case& c, const AttentionProblem& p,
                       const std::vector<AttentionPlace>& places) {
  Targets targets = empty_targets(c);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t t = 0; t < p.queries; ++t) {
      std::size_t i = places.size() - 1;
      while (places[i].query > t) --i;
      const AttentionPlace& place = places[i];
      const std::int64_t to =
          place.offset + b * place.batch_stride + (t - place.query) * place.token_stride;
      const auto target = targets[place.target].begin() + to;
      std::iota(target, target + p.heads * p.v_size, b * p.out.batch + t * p.out.token + 1);
    }
  }
  return targets;
}

TEST(AttentionReturn, HasThePlacesThatTheBoxesHave) {
  const std::vector<Case> cases = {
      {2, 1, 10, 4}, {3, 1, 10, 6},       {4, 1, 3, 4}, {2, 3, 7, 4},         {8, 2, 37, 16},
      {2, 1, 1, 2},  {3, 1, 24, 3, 8, 4}, {2, 2, 2, 2}, {4, 1, 12, 8, 16, 2},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.ranks << " ranks " << c.batch << "x" << c.tokens << "x"
                                    << c.heads << " in units of " << c.units);
    const auto plans = plans_of(c);
    const AttentionProblem p = attention_of(c);
    for (std::size_t self = 0; self < plans.size(); ++self) {
      const auto places = places_of_results(p, plans, self);
      ASSERT_TRUE(places.ok()) << places.status().to_string();
      EXPECT_EQ(through_places(c, p, *places), through_boxes(c, plans, self)) << "rank " << self;
    }
  }
}

TEST(AttentionReturn, HasNoPlacesForWhatIsNotTokensWithAllTheirHeads) {
  // Heads in place of tokens; several heads of a token apart.
  const Case c = {2, 1, 10, 4};
  AttentionProblem p = attention_of(c);
  p.out = {p.out.batch, p.queries * p.v_size, p.v_size};
  EXPECT_EQ(places_of_results(p, plans_of(c), 0).status().code(), StatusCode::kUnimplemented);
  // One batch's worth of one token cannot be told from a token.
  const Case one = {2, 2, 1, 4};
  const auto places = places_of_results(attention_of(one), plans_of(one), 0);
  if (places.ok()) {
    EXPECT_EQ(through_places(one, attention_of(one), *places),
              through_boxes(one, plans_of(one), 0));
  }
}

// Results of queries go to three places in two tensors that hold more than them.
class CudaAttentionReturn : public CudaWays {
 protected:
  template <class Make>
  void expect_same_bits(AttentionProblem p, Make make) {
    const std::int64_t all = p.batch * p.heads * p.queries * p.v_size;
    const Operand q = random(p.dtype, p.batch * p.heads * p.queries * p.qk_size);
    const Operand k = random(p.dtype, p.batch * p.kv_heads * p.keys * p.qk_size);
    const Operand v = random(p.dtype, p.batch * p.kv_heads * p.keys * p.v_size);
    AttentionAddresses at;
    at.q = q.memory->data();
    at.k = k.memory->data();
    at.v = v.memory->data();
    const std::vector<std::byte> whole = results_of(p, make, at, 1, all)[0];

    const std::int64_t row = p.heads * p.v_size;
    const std::int64_t wide = row + 8;  // beside heads of another rank
    const std::int64_t first = p.queries / 3;
    const std::int64_t second = p.queries - 1;
    p.places = {{0, 1, 8, p.queries * wide, wide},
                {first, 0, 3 * wide, p.queries * wide, wide},
                {second, 1, second * wide, p.queries * wide, wide}};
    const auto apart = results_of(p, make, at, 2, (p.batch + 1) * p.queries * wide);
    ASSERT_EQ(apart.size(), 2U);
    const std::size_t width = dtype_size(p.dtype);
    const auto bytes = [&](const std::vector<std::byte>& from, std::int64_t element) {
      const auto begin = from.begin() + element * static_cast<std::int64_t>(width);
      return std::vector<std::byte>(begin,
                                    begin + p.heads * p.v_size * static_cast<std::int64_t>(width));
    };
    std::int64_t written = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t t = 0; t < p.queries; ++t) {
        const AttentionPlace& place = p.places[t >= second ? 2 : t >= first ? 1 : 0];
        const std::int64_t to =
            place.offset + b * place.batch_stride + (t - place.query) * place.token_stride;
        ASSERT_EQ(bytes(apart[place.target], to), bytes(whole, b * p.out.batch + t * p.out.token))
            << "batch " << b << " token " << t;
        written += row;
      }
    }
    // Nothing else was touched.
    std::int64_t other = 0;
    for (const auto& tensor : apart) {
      other += std::count(tensor.begin(), tensor.end(), std::byte{0xff});
    }
    const auto in_all = static_cast<std::int64_t>(2 * apart[0].size());
    EXPECT_GE(other, in_all - written * static_cast<std::int64_t>(width));
  }

  // Tensors of `count` elements each, with bytes of 0xff before the run.
  template <class Make>
  std::vector<std::vector<std::byte>> results_of(const AttentionProblem& p, Make make,
                                                 AttentionAddresses at, int tensors,
                                                 std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * dtype_size(p.dtype);
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    std::vector<void*> targets;
    for (int i = 0; i < tensors; ++i) {
      auto made = DeviceMemory::allocate(0, bytes);
      EXPECT_TRUE(made.ok()) << made.status().to_string();
      if (!made.ok()) return {};
      memory.push_back(*std::move(made));
      targets.push_back(memory.back()->data());
      EXPECT_EQ(cudaMemset(targets.back(), 0xff, bytes), cudaSuccess);
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // before a stream that does not wait for it
    at.out = targets[0];
    at.targets = targets;
    auto way = make(p, context_);
    EXPECT_TRUE(way.ok()) << way.status().to_string();
    if (!way.ok()) return {};
    const Status status = (*way)->run(at);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(cudaStreamSynchronize(context_.stream), cudaSuccess);
    std::vector<std::vector<std::byte>> results(targets.size(), std::vector<std::byte>(bytes));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      EXPECT_EQ(cudaMemcpy(results[i].data(), targets[i], bytes, cudaMemcpyDeviceToHost),
                cudaSuccess);
    }
    return results;
  }
};

TEST_F(CudaAttentionReturn, OfPlainKernelsHasTheSameBits) {
  expect_same_bits(problem_of(DType::kFloat32, 2, 3, 3, 70, 90, 24, true), make_plain_attention);
  expect_same_bits(problem_of(DType::kBFloat16, 2, 4, 2, 150, 90, 32, true), make_plain_attention);
}

TEST_F(CudaAttentionReturn, OnHopperHasTheSameBits) {
  if (const Status status = hopper(); !status.ok()) GTEST_SKIP() << status.message();
  for (const AttentionProblem& p : {problem_of(DType::kBFloat16, 1, 4, 1, 500, 700, 128, true),
                                    problem_of(DType::kBFloat16, 3, 2, 2, 3, 200, 128, true),
                                    problem_of(DType::kFloat16, 2, 4, 2, 1000, 333, 64, true)}) {
    expect_same_bits(p, make_hopper_attention);
  }
}

}  // namespace
}  // namespace tutti::cuda
