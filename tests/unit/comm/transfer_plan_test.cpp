#include "comm/transfer_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "comm/copy.h"
#include "comm/local.h"
#include "graph/dim.h"
#include "ranks.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<std::int32_t>;

// The oracle: positions of the split dimension that a rank stores, written out unit by unit from
// the definition in graph/layout.h.
std::vector<std::int64_t> stored_positions(std::int64_t size,
                                           const std::optional<PieceSplit>& split, int ranks,
                                           int rank) {
  std::vector<std::int64_t> positions;
  if (!split) {
    for (std::int64_t i = 0; i < size; ++i) positions.push_back(i);
    return positions;
  }
  std::vector<std::int64_t> row;  // unit numbers, replicas in a row
  for (std::int64_t unit = 0; unit < split->units; ++unit)
    row.insert(row.end(), split->replicas, unit);
  const auto copies = static_cast<std::int64_t>(row.size());
  std::int64_t begin = 0;
  for (int r = 0; r < rank; ++r) begin += copies / ranks + (r < copies % ranks ? 1 : 0);
  const std::int64_t end = begin + copies / ranks + (rank < copies % ranks ? 1 : 0);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t unit_size = size / split->units;
    for (std::int64_t j = 0; j < unit_size; ++j) {
      positions.push_back(row[static_cast<std::size_t>(i)] * unit_size + j);
    }
  }
  return positions;
}

// A rank's piece of the tensor whose element is its own row-major index.
Ints stored_values(const Dims& dims, const std::optional<PieceSplit>& split, int ranks, int rank) {
  std::vector<std::vector<std::int64_t>> by_dim;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const bool is_split = split && split->dim == static_cast<int>(d);
    by_dim.push_back(stored_positions(dims[d], is_split ? split : std::nullopt, ranks, rank));
  }
  Ints values = {0};
  for (std::size_t d = 0; d < dims.size(); ++d) {
    Ints next;
    for (const std::int32_t prefix : values) {
      for (const std::int64_t at : by_dim[d]) {
        next.push_back(static_cast<std::int32_t>(prefix * dims[d] + at));
      }
    }
    values = std::move(next);
  }
  return values;
}

// Runs one exchange of all operands over threads; checks targets and total bytes against the
// oracle.
void check_transfer(const std::vector<TransferOperand>& operands, int n) {
  const Ranks ranks = make_local_communicators(n);
  std::vector<std::int64_t> sent(static_cast<std::size_t>(n), 0);
  expect_all_ok(on_all_ranks(ranks, [&](Communicator& comm) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const TransferPlan plan, make_transfer_plan(operands, n, comm.rank()));
    std::vector<Ints> in;
    std::vector<Ints> out;
    for (const TransferOperand& operand : operands) {
      in.push_back(stored_values(operand.dims, operand.from, n, comm.rank()));
      const Dims dims = piece_dims(operand.dims, operand.to, n, comm.rank());
      out.emplace_back(static_cast<std::size_t>(element_count(dims)), -1);
    }
    std::vector<const void*> sources;
    std::vector<void*> targets;
    for (Ints& buffer : in) sources.push_back(buffer.data());
    for (Ints& buffer : out) targets.push_back(buffer.data());
    TUTTI_RETURN_IF_ERROR(comm.exchange(plan.exchange, sources, targets));
    for (const LocalCopy& copy : plan.copies) {
      void* target = targets[static_cast<std::size_t>(copy.to.buffer)];
      copy_region(copy.from, target, copy.to, target);
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      EXPECT_EQ(out[i], stored_values(operands[i].dims, operands[i].to, n, comm.rank()))
          << "operand " << i << " on rank " << comm.rank() << " of " << n;
    }
    sent[static_cast<std::size_t>(comm.rank())] = plan.exchange.sent_bytes(comm.rank());
    return {};
  }));
  // What must travel: elements that a rank needs and does not have.
  std::int64_t minimum = 0;
  for (const TransferOperand& operand : operands) {
    for (int rank = 0; rank < n; ++rank) {
      const Ints have = stored_values(operand.dims, operand.from, n, rank);
      const Ints need = stored_values(operand.dims, operand.to, n, rank);
      std::set<std::int32_t> missing(need.begin(), need.end());
      for (const std::int32_t value : have) missing.erase(value);
      minimum += 4 * static_cast<std::int64_t>(missing.size());
    }
  }
  std::int64_t total = 0;
  for (const std::int64_t bytes : sent) total += bytes;
  EXPECT_EQ(total, minimum);
}

PieceSplit split(int dim, std::int64_t units, int replicas = 1) { return {dim, units, replicas}; }

// Sequences of 5 and 3 columns, joined: two ranks have 3 + 2 and 2 + 1 of them.
TEST(JoinedGatherPlan, PutsPiecesOfEachSequenceInTheirPlaces) {
  const TransferOperand operand{{2, 8}, 4, PieceSplit{1, 8}, std::nullopt};
  const std::vector<std::int64_t> segments = {5, 3};
  const auto plan = joined_gather_plan({&operand, 1}, segments, 2, 1);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const auto expect = [](const std::vector<Region>& regions, std::int64_t stride,
                         const std::vector<std::pair<std::size_t, std::int64_t>>& runs) {
    ASSERT_EQ(regions.size(), runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      EXPECT_EQ(regions[i].offset, runs[i].first);
      EXPECT_EQ(regions[i].run, runs[i].second);
      EXPECT_EQ(regions[i].sizes, std::vector<std::int64_t>{2});
      EXPECT_EQ(regions[i].strides, std::vector<std::int64_t>{stride});
    }
  };
  expect(plan->exchange.send[0], 12, {{0, 8}, {8, 4}});
  expect(plan->exchange.receive[0], 32, {{0, 12}, {20, 8}});
  expect(plan->exchange.receive[1], 32, {{12, 8}, {28, 4}});
  // More ranks than a sequence has elements: nothing of it travels from those that have none.
  const auto many = joined_gather_plan({&operand, 1}, segments, 4, 3);
  ASSERT_TRUE(many.ok());
  expect(many->exchange.send[0], 4, {{0, 4}});
  const std::vector<std::int64_t> wrong = {5, 4};
  EXPECT_THAT(joined_gather_plan({&operand, 1}, wrong, 2, 0).status().message(),
              HasSubstr("segments of 9 elements in all are joined along dimension 1 of 8"));
}

TEST(TransferPlan, TokensToHeadsOverEveryNumberOfRanks) {
  // [batch, tokens, heads, head size]: 11 tokens and 5 heads divide by nothing.
  for (int n = 1; n <= 8; ++n) {
    const TransferOperand qkv{{2, 11, 5, 3}, 4, split(1, 11), split(2, 5)};
    check_transfer({qkv, qkv, qkv}, n);
    check_transfer({{{2, 11, 5, 3}, 4, split(2, 5), split(1, 11)}}, n);  // and back
  }
}

TEST(TransferPlan, GroupedHeadsGoToEveryRankThatNeedsThem) {
  // 8 query heads and 4 key/value heads over 8 ranks: each key/value head on two ranks.
  check_transfer({{{1, 16, 8, 2}, 4, split(1, 16), split(2, 8)},
                  {{1, 16, 4, 2}, 4, split(1, 16), split(2, 4, 2)},
                  {{1, 16, 4, 2}, 4, split(1, 16), split(2, 4, 2)}},
                 8);
  // Over 3 ranks a rank holds some heads twice; those bytes travel once.
  check_transfer({{{1, 7, 4, 2}, 4, split(1, 7), split(2, 4, 2)}}, 3);
}

TEST(TransferPlan, ReplicatedSourcesSendFromTheFirstHolderAndKeepTheirOwn) {
  for (int n = 1; n <= 8; ++n) {
    check_transfer({{{3, 4, 6}, 4, split(1, 4, 2), std::nullopt}}, n);
    check_transfer({{{3, 4, 6}, 4, split(1, 2, 3), split(2, 3)}}, n);
  }
  // Ranks 0 and 1 hold unit 0: only rank 0 sends it.
  const Result<TransferPlan> second = all_gather_plan({4}, 4, split(0, 2, 2), 4, 1);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->exchange.sent_bytes(1), 0);
  const Result<TransferPlan> first = all_gather_plan({4}, 4, split(0, 2, 2), 4, 0);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->exchange.sent_bytes(0), 2 * 8);  // to ranks 2 and 3
}

TEST(TransferPlan, SentBytesOfAnEvenAllToAllAreTheFormula) {
  // tokens * width / n elements a rank, of which the share 1 / n stays.
  for (const int n : {2, 4, 8}) {
    const TransferOperand operand{{1, 64, 8, 16}, 2, split(1, 64), split(2, 8)};
    for (int self = 0; self < n; ++self) {
      const Result<TransferPlan> plan = all_to_all_plan({&operand, 1}, n, self);
      ASSERT_TRUE(plan.ok());
      EXPECT_EQ(plan->exchange.sent_bytes(self), 64 * 8 * 16 * 2 / n * (n - 1) / n);
    }
  }
}

TEST(TransferPlan, SentBytesOfAGatherAreThePieceTimesTheOthers) {
  const Result<TransferPlan> plan = all_gather_plan({5, 3}, 4, split(0, 5), 4, 0);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->exchange.sent_bytes(0), 2 * 3 * 4 * 3);  // 2 of the 5 rows, to 3 ranks
}

TEST(TransferPlan, SliceOfAReplicatedValueSendsNothing) {
  for (int self = 0; self < 3; ++self) {
    const Result<TransferPlan> plan = shard_slice_plan({10, 4}, 4, split(1, 4), 3, self);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->exchange.sent_bytes(self), 0);
  }
  for (int n = 1; n <= 8; ++n) check_transfer({{{2, 5, 3}, 4, std::nullopt, split(1, 5, 2)}}, n);
}

TEST(TransferPlan, MoreRanksThanUnitsAndEmptyTensorsWork) {
  check_transfer({{{1, 5, 4}, 4, split(1, 5), split(2, 2)}}, 8);
  check_transfer({{{1, 0, 4}, 4, split(1, 0), split(2, 4)}}, 3);
  check_transfer({{{0, 6, 4}, 4, split(1, 6), split(2, 4)}}, 3);
}

TEST(TransferPlan, SameDimensionMayBeCutAnew) {
  for (int n = 1; n <= 8; ++n) check_transfer({{{2, 12, 3}, 4, split(1, 3), split(1, 12)}}, n);
}

TEST(TransferPlan, FewRegionsDescribeWholeBoxes) {
  const TransferOperand operand{{1, 4096, 8, 64}, 4, split(1, 4096), split(2, 8)};
  const Result<TransferPlan> plan = all_to_all_plan({&operand, 1}, 4, 1);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->exchange.send[0].size(), 1U);
  const Region& region = plan->exchange.send[0][0];
  EXPECT_EQ(region.sizes, std::vector<std::int64_t>{1024});  // one run of two heads a token
  EXPECT_EQ(region.run, 2 * 64 * 4);
}

TEST(TransferPlan, RandomTransfersMatchTheOracle) {
  std::mt19937 random(7);
  const auto up_to = [&](int limit) {
    return std::uniform_int_distribution<int>(0, limit)(random);
  };
  for (int round = 0; round < 150; ++round) {
    const int n = 1 + up_to(7);
    std::vector<TransferOperand> operands;
    for (int i = up_to(2); i >= 0; --i) {
      const int rank = 1 + up_to(3);
      Dims dims;
      std::vector<std::int64_t> units;
      for (int d = 0; d < rank; ++d) {
        units.push_back(up_to(7) == 0 ? 1 : 1 + up_to(5));
        dims.push_back(units.back() * (1 + up_to(2)));
      }
      const auto cut = [&]() -> std::optional<PieceSplit> {
        if (up_to(4) == 0) return std::nullopt;
        const int dim = up_to(rank - 1);
        return split(dim, units[static_cast<std::size_t>(dim)], 1 + up_to(2));
      };
      operands.push_back({dims, 4, cut(), cut()});
    }
    SCOPED_TRACE(::testing::Message() << "round " << round);
    check_transfer(operands, n);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(TransferPlan, ReduceScatterBringsAllContributionsInRankOrder) {
  constexpr int kRanks = 3;
  const Dims dims = {2, 7};
  const PieceSplit to = split(1, 7);
  const Ranks ranks = make_local_communicators(kRanks);
  expect_all_ok(on_all_ranks(ranks, [&](Communicator& comm) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const TransferPlan plan,
                           reduce_scatter_plan(dims, 4, to, kRanks, comm.rank()));
    Ints source = stored_values(dims, std::nullopt, kRanks, comm.rank());
    for (std::int32_t& value : source) value += 1000 * comm.rank();
    const Ints piece = stored_values(dims, to, kRanks, comm.rank());
    Ints target(piece.size() * kRanks, -1);
    const void* sources[] = {source.data()};
    void* targets[] = {target.data()};
    TUTTI_RETURN_IF_ERROR(comm.exchange(plan.exchange, sources, targets));
    Ints expected;
    for (int peer = 0; peer < kRanks; ++peer) {
      for (const std::int32_t value : piece) expected.push_back(value + 1000 * peer);
    }
    EXPECT_EQ(target, expected);
    EXPECT_EQ(plan.exchange.sent_bytes(comm.rank()),
              2 * (7 - part_size(7, kRanks, comm.rank())) * 4);
    return {};
  }));
}

TEST(TransferPlan, NamesWhatDoesNotFit) {
  EXPECT_THAT(all_gather_plan({4, 10}, 4, split(1, 4), 2, 0).status().message(),
              HasSubstr("dimension 1 of size 10 cannot be cut into 4 equal units"));
  EXPECT_THAT(shard_slice_plan({4}, 4, split(1, 4), 2, 0).status().message(),
              HasSubstr("dimension 1 of a tensor of rank 1"));
  EXPECT_THAT(shard_slice_plan({4}, 4, split(0, 4), 2, 2).status().message(),
              HasSubstr("rank 2 of 2"));
  const TransferOperand one_sided{{4}, 4, split(0, 4), std::nullopt};
  EXPECT_THAT(all_to_all_plan({&one_sided, 1}, 2, 0).status().message(), HasSubstr("operand 0"));
}

}  // namespace
}  // namespace tutti
