#include "comm/mesh_communicators.h"

#include <gtest/gtest.h>

#include "ranks.h"

namespace tutti {
namespace {

TEST(MeshCommunicators, GroupRanksAlongEachAxis) {
  const Mesh mesh = *Mesh::parse("cfg=2,one=1,cp=3");
  const auto by_rank = make_mesh_communicators(mesh);
  ASSERT_EQ(by_rank.size(), 6U);
  std::vector<std::thread> threads;
  std::vector<std::vector<std::int64_t>> sums(6, std::vector<std::int64_t>(3, 0));
  for (std::size_t rank = 0; rank < 6; ++rank) {
    ASSERT_EQ(by_rank[rank].size(), 3U);
    EXPECT_EQ(by_rank[rank][1], nullptr) << "an axis of size 1 needs no communicator";
    threads.emplace_back([&, rank] {
      for (const std::size_t axis : {std::size_t{0}, std::size_t{2}}) {
        Communicator& comm = *by_rank[rank][axis];
        EXPECT_EQ(comm.rank(), mesh.coordinate(static_cast<int>(rank), static_cast<int>(axis)));
        EXPECT_EQ(comm.size(), mesh.size(static_cast<int>(axis)));
        const std::int64_t mine = std::int64_t{1} << (8 * rank);
        EXPECT_TRUE(
            comm.all_reduce(&mine, &sums[rank][axis], 1, DType::kInt64, ReduceOp::kSum).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Rank 3 * cfg + cp: byte r of a sum says that rank r took part.
  for (std::size_t rank = 0; rank < 6; ++rank) {
    const std::size_t cp = rank % 3;
    const std::int64_t row = rank < 3 ? 0x010101 : 0x010101000000;
    EXPECT_EQ(sums[rank][0], (std::int64_t{1} << (8 * cp)) + (std::int64_t{1} << (8 * (cp + 3))));
    EXPECT_EQ(sums[rank][2], row);
  }
}

TEST(MeshCommunicators, AbortReachesEveryGroupAndRenewForgetsIt) {
  const Mesh mesh = *Mesh::parse("a=2,b=2");
  const auto mesh_communicators = make_local_mesh(mesh);
  const auto barriers = [&] {
    std::vector<Status> statuses(8);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      threads.emplace_back([&, rank] {
        const auto axes = mesh_communicators->of_rank(static_cast<int>(rank));
        statuses[rank] = axes[0]->barrier();
        statuses[rank + 4] = axes[1]->barrier();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  };
  mesh_communicators->abort(unavailable("first"));
  mesh_communicators->abort(unavailable("second"));
  for (const Status& status : barriers()) EXPECT_EQ(status.message(), "first");
  ASSERT_TRUE(mesh_communicators->renew().ok());
  expect_all_ok(barriers());
}

}  // namespace
}  // namespace tutti
