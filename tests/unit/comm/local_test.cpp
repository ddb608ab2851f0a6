#include "comm/local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/dispatch.h"
#include "base/half.h"
#include "ranks.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

// A contiguous region of `bytes` bytes.
Region bytes_at(std::size_t offset, std::int64_t bytes, int buffer = 0) {
  Region region;
  region.buffer = buffer;
  region.offset = offset;
  region.run = bytes;
  return region;
}

class LocalCommunicatorOfSize : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, LocalCommunicatorOfSize, ::testing::Range(1, 9));

TEST_P(LocalCommunicatorOfSize, ExchangesPiecesOfUnevenSizes) {
  const int n = GetParam();
  const Ranks ranks = make_local_communicators(n);
  // Rank p sends p + q bytes of value 16 * p + q to rank q; 0 to 0 is empty.
  expect_all_ok(on_all_ranks(ranks, [n](Communicator& comm) -> Status {
    const int p = comm.rank();
    ExchangePlan plan;
    std::vector<unsigned char> source;
    std::size_t received = 0;
    for (int q = 0; q < n; ++q) {
      plan.send.push_back({bytes_at(source.size(), p + q)});
      source.insert(source.end(), static_cast<std::size_t>(p + q),
                    static_cast<unsigned char>(16 * p + q));
      plan.receive.push_back({bytes_at(received, q + p)});
      received += static_cast<std::size_t>(q + p);
    }
    std::vector<unsigned char> target(received + 1, 255);
    const void* sources[] = {source.data()};
    void* targets[] = {target.data()};
    TUTTI_RETURN_IF_ERROR(comm.exchange(plan, sources, targets));
    std::size_t at = 0;
    for (int q = 0; q < n; ++q) {
      for (int i = 0; i < p + q; ++i) EXPECT_EQ(target[at++], 16 * q + p);
    }
    EXPECT_EQ(target[received], 255) << "wrote past the end";
    return {};
  }));
}

TEST_P(LocalCommunicatorOfSize, MovesStridedBoxes) {
  const int n = GetParam();
  const Ranks ranks = make_local_communicators(n);
  // Every rank holds a [3, n] matrix of ints and gives column q to rank q, which stores the columns
  // it gets as rows: a transposition over ranks.
  expect_all_ok(on_all_ranks(ranks, [n](Communicator& comm) -> Status {
    const auto p = comm.rank();
    std::vector<int> source(static_cast<std::size_t>(3 * n));
    for (int row = 0; row < 3; ++row) {
      for (int q = 0; q < n; ++q) {
        source[static_cast<std::size_t>(row * n + q)] = 100 * p + 10 * q + row;
      }
    }
    ExchangePlan plan;
    for (int q = 0; q < n; ++q) {
      Region from = bytes_at(static_cast<std::size_t>(q) * 4, 4);
      from.sizes = {3};
      from.strides = {4 * n};
      Region to = bytes_at(static_cast<std::size_t>(q) * 12, 4);
      to.sizes = {3};
      to.strides = {4};
      plan.send.push_back({from});
      plan.receive.push_back({to});
    }
    std::vector<int> target(static_cast<std::size_t>(3 * n), -1);
    const void* sources[] = {source.data()};
    void* targets[] = {target.data()};
    TUTTI_RETURN_IF_ERROR(comm.exchange(plan, sources, targets));
    for (int q = 0; q < n; ++q) {
      for (int row = 0; row < 3; ++row) {
        EXPECT_EQ(target[static_cast<std::size_t>(3 * q + row)], 100 * q + 10 * p + row);
      }
    }
    EXPECT_EQ(comm.sent_bytes(), 12 * (n - 1));
    return {};
  }));
}

template <class T>
void check_sum(int n, DType dtype, std::int64_t count, const std::function<double(int, int)>& value,
               double tolerance) {
  SCOPED_TRACE(::testing::Message() << dtype_name(dtype) << " x " << count);
  const Ranks ranks = make_local_communicators(n);
  std::vector<std::vector<T>> results(static_cast<std::size_t>(n));
  expect_all_ok(on_all_ranks(ranks, [&](Communicator& comm) -> Status {
    std::vector<T>& data = results[static_cast<std::size_t>(comm.rank())];
    for (std::int64_t i = 0; i < count; ++i) {
      data.push_back(T(static_cast<ComputeType<T>>(value(comm.rank(), static_cast<int>(i)))));
    }
    return comm.all_reduce(data.data(), data.data(), count, dtype, ReduceOp::kSum);
  }));
  // Small ones go whole to every rank; of others each rank reduces a share, and gives it to the
  // rest.
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
  std::int64_t sent = 0;
  for (const auto& rank : ranks) sent += rank->sent_bytes();
  EXPECT_EQ(sent, bytes * (n - 1) * (bytes <= 16 * 1024 ? n : 2));
  for (std::int64_t i = 0; i < count; ++i) {
    double expected = 0;
    for (int rank = 0; rank < n; ++rank) expected += value(rank, static_cast<int>(i));
    const auto at = static_cast<std::size_t>(i);
    const auto got = static_cast<double>(static_cast<ComputeType<T>>(results[0][at]));
    ASSERT_NEAR(got, expected, tolerance * std::max(1.0, std::abs(expected))) << "element " << i;
    for (const auto& other : results) {
      ASSERT_EQ(std::memcmp(&other[at], &results[0][at], sizeof(T)), 0) << "ranks differ at " << i;
    }
  }
}

TEST_P(LocalCommunicatorOfSize, AllReduceSumsEveryNumberTypeInPlaceWithEqualBits) {
  const int n = GetParam();
  const auto fraction = [](int rank, int i) { return std::sin(rank * 7 + i) * 3; };
  const auto whole = [](int rank, int i) { return (rank * 7 + i) % 11; };
  for (const std::int64_t count : {0, 1, 7, 1000, 20011}) {  // below and above the small limit
    check_sum<float>(n, DType::kFloat32, count, fraction, 1e-5);
    check_sum<double>(n, DType::kFloat64, count, fraction, 1e-12);
    check_sum<Half>(n, DType::kFloat16, count, fraction, 2e-2);
    check_sum<BFloat16>(n, DType::kBFloat16, count, fraction, 1e-1);
    check_sum<std::int8_t>(n, DType::kInt8, count, whole, 0);
    check_sum<std::int32_t>(n, DType::kInt32, count, whole, 0);
    check_sum<std::uint64_t>(n, DType::kUInt64, count, whole, 0);
  }
}

TEST_P(LocalCommunicatorOfSize, AllReduceFindsExtremesIntoAnotherBuffer) {
  const int n = GetParam();
  const Ranks ranks = make_local_communicators(n);
  for (const std::int64_t count : {5, 9000}) {
    expect_all_ok(on_all_ranks(ranks, [&](Communicator& comm) -> Status {
      std::vector<float> source(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < source.size(); ++i) {
        source[i] = static_cast<float>((comm.rank() * 5 + static_cast<int>(i)) % n);
      }
      std::vector<float> target(source.size(), -1);
      TUTTI_RETURN_IF_ERROR(
          comm.all_reduce(source.data(), target.data(), count, DType::kFloat32, ReduceOp::kMax));
      // Where 5 and n share no factor the values are all of 0..n-1; else compute them.
      for (std::size_t i = 0; i < target.size(); ++i) {
        int largest = 0;
        for (int r = 0; r < n; ++r) largest = std::max(largest, (r * 5 + static_cast<int>(i)) % n);
        EXPECT_EQ(target[i], static_cast<float>(largest));
      }
      TUTTI_RETURN_IF_ERROR(
          comm.all_reduce(source.data(), target.data(), count, DType::kFloat32, ReduceOp::kMin));
      for (std::size_t i = 0; i < target.size(); ++i) {
        int smallest = n;
        for (int r = 0; r < n; ++r) {
          smallest = std::min(smallest, (r * 5 + static_cast<int>(i)) % n);
        }
        EXPECT_EQ(target[i], static_cast<float>(smallest));
      }
      return {};
    }));
  }
}

TEST(LocalCommunicator, AllReduceKeepsANanInEveryPosition) {
  const Ranks ranks = make_local_communicators(3);
  expect_all_ok(on_all_ranks(ranks, [](Communicator& comm) -> Status {
    std::vector<float> data = {1, 2, 3};
    data[static_cast<std::size_t>(comm.rank())] = std::numeric_limits<float>::quiet_NaN();
    TUTTI_RETURN_IF_ERROR(
        comm.all_reduce(data.data(), data.data(), 3, DType::kFloat32, ReduceOp::kMax));
    for (const float value : data) EXPECT_TRUE(std::isnan(value));
    return {};
  }));
}

TEST(LocalCommunicator, AllReduceRefusesBool) {
  const Ranks ranks = make_local_communicators(1);
  bool flag = true;
  const Status status = ranks[0]->all_reduce(&flag, &flag, 1, DType::kBool, ReduceOp::kSum);
  EXPECT_THAT(status.message(), HasSubstr("takes numbers, not bool"));
}

TEST(LocalCommunicator, AbortWakesThoseWhoWaitWithTheFirstReason) {
  const Ranks ranks = make_local_communicators(4);
  const std::vector<Status> statuses = on_all_ranks(ranks, [](Communicator& comm) -> Status {
    if (comm.rank() != 2) return comm.barrier();
    comm.abort(unavailable("rank 2 lost its device"));
    comm.abort(unavailable("a later reason"));
    return comm.barrier();
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "rank 2 lost its device");
  }
  // Later calls fail too.
  EXPECT_EQ(ranks[0]->barrier().message(), "rank 2 lost its device");
}

TEST(LocalCommunicator, DeadlineNamesTheRanksThatDidNotCome) {
  LocalCommunicatorOptions options;
  options.timeout = std::chrono::milliseconds(30);
  const Ranks ranks = make_local_communicators(5, options);
  const std::vector<Status> statuses = on_all_ranks(ranks, [](Communicator& comm) -> Status {
    if (comm.rank() == 1 || comm.rank() == 3) return {};
    float value = 0;
    return comm.all_reduce(&value, &value, 1, DType::kFloat32, ReduceOp::kSum);
  });
  for (const int rank : {0, 2, 4}) {
    EXPECT_EQ(statuses[static_cast<std::size_t>(rank)].code(), StatusCode::kDeadlineExceeded);
    EXPECT_EQ(statuses[static_cast<std::size_t>(rank)].message(),
              "all_reduce: ranks 1, 3 of 5 did not arrive within 30 ms");
  }
}

TEST(LocalCommunicator, DifferentOrdersOfCollectivesAreAnErrorNotAHang) {
  const Ranks ranks = make_local_communicators(2);
  const std::vector<Status> statuses = on_all_ranks(ranks, [](Communicator& comm) -> Status {
    if (comm.rank() == 0) return comm.barrier();
    float value = 0;
    return comm.all_reduce(&value, &value, 1, DType::kFloat32, ReduceOp::kSum);
  });
  for (const Status& status : statuses) EXPECT_THAT(status.message(), HasSubstr("order"));
}

TEST(LocalCommunicator, PlansThatDisagreeAreAnErrorNotAHang) {
  const Ranks ranks = make_local_communicators(2);
  const std::vector<Status> statuses = on_all_ranks(ranks, [](Communicator& comm) -> Status {
    std::vector<std::byte> source(64);
    std::vector<std::byte> target(64);
    ExchangePlan plan;
    plan.send.assign(2, {bytes_at(0, comm.rank() == 0 ? 8 : 4)});
    plan.receive.assign(2, {bytes_at(0, comm.rank() == 0 ? 8 : 4)});
    const void* sources[] = {source.data()};
    void* targets[] = {target.data()};
    return comm.exchange(plan, sources, targets);
  });
  for (const Status& status : statuses)
    EXPECT_THAT(status.message(), HasSubstr("exchange: region 0"));
}

TEST(LocalCommunicator, ExchangeRefusesARegionOfABufferThatWasNotGiven) {
  const Ranks ranks = make_local_communicators(1);
  ExchangePlan plan;
  plan.send = {{bytes_at(0, 1, 1)}};
  plan.receive = {{bytes_at(0, 1)}};
  std::byte data[2] = {};
  const void* sources[] = {&data[0]};
  void* targets[] = {&data[1]};
  EXPECT_THAT(ranks[0]->exchange(plan, sources, targets).message(), HasSubstr("buffer 1"));
}

// With cores to spare waiting spins first, without it blocks at once.
class LocalCommunicatorUnderLoad : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Cores, LocalCommunicatorUnderLoad, ::testing::Values(1, 64));

TEST_P(LocalCommunicatorUnderLoad, KeepsOrderOverManyMixedCollectives) {
  constexpr int kRanks = 8;
  constexpr int kRounds = 300;
  LocalCommunicatorOptions options;
  options.cores = GetParam();
  const Ranks ranks = make_local_communicators(kRanks, options);
  expect_all_ok(on_all_ranks(ranks, [](Communicator& comm) -> Status {
    ExchangePlan plan;
    for (int q = 0; q < kRanks; ++q) {
      plan.send.push_back({bytes_at(0, 8)});
      plan.receive.push_back({bytes_at(static_cast<std::size_t>(q) * 8, 8)});
    }
    std::vector<std::int64_t> gathered(kRanks);
    for (std::int64_t round = 0; round < kRounds; ++round) {
      const std::int64_t mine = round * 100 + comm.rank();
      const void* sources[] = {&mine};
      void* targets[] = {gathered.data()};
      TUTTI_RETURN_IF_ERROR(comm.exchange(plan, sources, targets));
      for (int q = 0; q < kRanks; ++q) {
        EXPECT_EQ(gathered[static_cast<std::size_t>(q)], round * 100 + q);
      }
      std::int64_t sum = round;
      TUTTI_RETURN_IF_ERROR(comm.all_reduce(&sum, &sum, 1, DType::kInt64, ReduceOp::kSum));
      EXPECT_EQ(sum, round * kRanks);
      if (round % 7 == 0) TUTTI_RETURN_IF_ERROR(comm.barrier());
    }
    return {};
  }));
}

TEST_P(LocalCommunicatorUnderLoad, AbortStopsEverybody) {
  LocalCommunicatorOptions options;
  options.cores = GetParam();
  const Ranks ranks = make_local_communicators(6, options);
  const std::vector<Status> statuses = on_all_ranks(ranks, [](Communicator& comm) -> Status {
    std::vector<float> data(20000, 1);
    for (int round = 0;; ++round) {
      if (comm.rank() == 5 && round == 20) comm.abort(unavailable("stop"));
      TUTTI_RETURN_IF_ERROR(
          comm.all_reduce(data.data(), data.data(), 20000, DType::kFloat32, ReduceOp::kMax));
    }
  });
  for (const Status& status : statuses) EXPECT_EQ(status.message(), "stop");
}

}  // namespace
}  // namespace tutti
