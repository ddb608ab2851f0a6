#include "runtime/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "fault.h"
#include "toy.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using toy::Fault;
using toy::Gate;
using toy::numbers;

TimePoint in(milliseconds time) { return std::chrono::steady_clock::now() + time; }

// A group of `ranks` over the toy model.
class Group {
 public:
  explicit Group(int ranks, std::shared_ptr<RankHooks> hooks = nullptr,
                 milliseconds grace = milliseconds(2000)) {
    RankGroupOptions options;
    options.hooks = std::move(hooks);
    options.stall_grace = grace;
    auto plan = std::make_shared<const Plan>(toy::make_plan("cp=" + std::to_string(ranks)));
    auto made = RankGroup::create(std::move(plan), backend, options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    group = *std::move(made);
  }

  Status run(const RunOptions& options = {}) {
    const std::vector<Tensor> inputs = {x, text};
    const auto outputs = group->run(inputs, options);
    if (outputs.ok()) {
      EXPECT_EQ(toy::values((*outputs)[0]), toy::expected_z(x, text));
    }
    return outputs.status();
  }

  toy::ToyBackend backend;
  std::unique_ptr<RankGroup> group;
  Tensor x = numbers({2, 9, 5, 2}, 1);
  Tensor text = numbers({2, 4}, 1);
};

TEST(RankGroup, NamesARankThatThrowsAndWorksAgain) {
  auto fault = std::make_shared<Fault>(3, "RunningSum",
                                       []() -> Status { throw std::runtime_error("boom"); });
  Group group(4, fault);
  const Status status = group.run();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "rank 3 of 4: exception: boom");
  EXPECT_TRUE(group.run().ok());
  EXPECT_EQ(group.backend.ranks_made.load(), 8) << "all ranks are made anew";
  EXPECT_EQ(group.group->rebuilds(), 1);
}

TEST(RankGroup, NamesARankThatReturnsAnErrorAndWorksAgain) {
  for (const int rank : {0, 1, 7}) {
    auto fault =
        std::make_shared<Fault>(rank, "AllGather", [] { return internal_error("device lost"); });
    Group group(8, fault);
    const Status status = group.run();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), str_cat("rank ", rank, " of 8: device lost"));
    EXPECT_TRUE(group.run().ok());
  }
}

TEST(RankGroup, ARankWithoutMemoryIsNamedAndAllRanksAreKept) {
  for (const int poor : {0, 2}) {
    Group group(3);
    group.backend.before_memory = [&](int rank, std::size_t bytes) -> Status {
      if (rank != poor) return {};
      return Status(StatusCode::kResourceExhausted, str_cat("no memory for ", bytes, " bytes"));
    };
    RunOptions options;
    options.deadline = in(milliseconds(60000));
    for (int turn = 0; turn < 2; ++turn) {
      const Status status = group.run(options);
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.to_string();
      EXPECT_THAT(status.message(), StartsWith(str_cat("rank ", poor, " of 3: no memory for ")));
    }
    group.backend.before_memory = nullptr;
    EXPECT_TRUE(group.run(options).ok());
    EXPECT_EQ(group.backend.ranks_made.load(), 3);
  }
}

TEST(RankGroup, SurvivesManyFailuresInARow) {
  auto fault =
      std::make_shared<Fault>(1, "AddAlong", []() -> Status { throw std::runtime_error("again"); });
  Group group(3, fault);
  for (int i = 0; i < 20; ++i) {
    fault->is_armed = true;
    EXPECT_THAT(group.run().message(), StartsWith("rank 1 of 3"));
    EXPECT_TRUE(group.run().ok());
  }
}

TEST(RankGroup, ThrownThingsOfUnknownTypeAreErrorsToo) {
  Group group(2, std::make_shared<Fault>(0, "Affine", []() -> Status { throw 7; }));
  EXPECT_EQ(group.run().message(), "rank 0 of 2: exception of unknown type");
  EXPECT_TRUE(group.run().ok());
}

TEST(RankGroup, WhatIsWrongWithTheContentIsTheCallersError) {
  Group group(2);
  const Tensor good = group.x;
  group.x = numbers({2, 9, 5, 2}, 1);
  group.x.mutable_data_as<float>()[0] = 1000;
  const Status status = group.run();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), StartsWith("rank 0 of 2: "));
  EXPECT_THAT(status.message(), HasSubstr("1000 is out of range"));
  group.x = good;
  EXPECT_TRUE(group.run().ok());
  EXPECT_EQ(group.backend.ranks_made.load(), 2) << "sound ranks are kept";
}

TEST(RankGroup, AnswersAtTheDeadlineAndNamesTheRankThatStalls) {
  Gate gate;
  auto fault = std::make_shared<Fault>(2, "RunningSum", [&] {
    gate.pass();
    return Status();
  });
  Group group(4, fault, milliseconds(20));
  RunOptions options;
  options.deadline = in(milliseconds(60));
  const Status status = group.run(options);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("rank 2 ("));
  EXPECT_THAT(status.message(), HasSubstr("of 4 did not finish"));
  for (const char* other : {"rank 0", "rank 1", "rank 3"}) {
    EXPECT_THAT(status.message(), ::testing::Not(HasSubstr(other))) << "they wait for rank 2";
  }
  // The thread is still stalled; new ranks take over.
  EXPECT_TRUE(group.run().ok());
  EXPECT_EQ(group.backend.ranks_made.load(), 8);
  // It wakes and finds its memory intact, and goes.
  const std::weak_ptr<Fault> held = fault;
  group.group.reset();
  fault.reset();
  gate.open();
  while (!held.expired()) std::this_thread::yield();
}

TEST(RankGroup, RanksThatComeBackInTimeAreKept) {
  Gate gate;
  Group group(3, std::make_shared<Fault>(1, "AddAlong", [&] {
                gate.pass();
                return Status();
              }));
  RunOptions options;
  options.deadline = in(milliseconds(30));
  EXPECT_EQ(group.run(options).code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(group.group->is_ready());
  gate.open();
  EXPECT_TRUE(group.run().ok());
  EXPECT_EQ(group.backend.ranks_made.load(), 3);
}

TEST(RankGroup, CancelStopsAllRanksAndKeepsThem) {
  std::stop_source cancel;
  Group group(4, std::make_shared<Fault>(2, "AddAlong", [&] {
                cancel.request_stop();
                return Status();
              }));
  RunOptions options;
  options.cancel = cancel.get_token();
  // Rank 2 runs on until it sees the flag; whether that is before its end is a matter of timing.
  const Status status = group.run(options);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(group.run(options).code(), StatusCode::kCancelled) << "cancelled before it begins";
  EXPECT_TRUE(group.run().ok());
  EXPECT_EQ(group.backend.ranks_made.load(), 4);
  EXPECT_EQ(group.group->rebuilds(), 0);
}

TEST(RankGroup, IsReadyAfterACancelledRun) {
  std::stop_source cancel;
  Group group(1, std::make_shared<Fault>(0, "AddAlong", [&] {
                cancel.request_stop();
                return Status();
              }));
  RunOptions options;
  options.cancel = cancel.get_token();
  (void)group.run(options);  // may be over before anybody looks at the flag
  EXPECT_EQ(group.group->state(), GroupState::kIdle);
  EXPECT_TRUE(group.run().ok());
}

TEST(RankGroup, CancelReachesRanksThatWaitForAStalledOne) {
  Gate gate;
  std::stop_source cancel;
  Group group(4, std::make_shared<Fault>(0, "AddAlong", [&] {
                gate.pass();
                return Status();
              }));
  std::thread canceller([&] {
    gate.wait_for_visitor();
    cancel.request_stop();
  });
  RunOptions options;
  options.cancel = cancel.get_token();
  EXPECT_EQ(group.run(options).code(), StatusCode::kCancelled);
  canceller.join();
  gate.open();
  EXPECT_TRUE(group.run().ok());
}

TEST(RankGroup, IsNotReadyWhileItIsRebuilt) {
  Gate gate;
  Group group(2, std::make_shared<Fault>(0, "AllGather",
                                         []() -> Status { throw std::runtime_error("boom"); }));
  EXPECT_TRUE(group.group->is_ready());
  group.backend.before_rank = [&] {
    gate.pass();
    return Status();
  };
  EXPECT_EQ(group.run().code(), StatusCode::kUnavailable);
  gate.wait_for_visitor();
  EXPECT_FALSE(group.group->is_ready());
  EXPECT_EQ(group.group->state(), GroupState::kRebuilding);
  RunOptions options;
  options.deadline = in(milliseconds(20));
  EXPECT_THAT(group.run(options).message(), HasSubstr("still rebuilding"));
  gate.open();
  EXPECT_TRUE(group.run().ok());
  EXPECT_TRUE(group.group->is_ready());
}

TEST(RankGroup, TriesAgainAfterARebuildThatFailed) {
  Group group(2, std::make_shared<Fault>(1, "AllGather",
                                         []() -> Status { throw std::runtime_error("boom"); }));
  std::atomic<int> refusals{2};
  group.backend.before_rank = [&]() -> Status {
    if (refusals.fetch_sub(1) > 0) return unavailable("no device");
    return {};
  };
  EXPECT_THAT(group.run().message(), HasSubstr("boom"));
  // At most two attempts fail: the keeper's own and those that requests ask for.
  Status status;
  for (int i = 0; i < 3 && !(status = group.run()).ok(); ++i) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "the rank group could not be rebuilt: no device");
  }
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST(RankGroup, ACollectiveTimeoutNamesTheMissingRank) {
  Gate gate;
  RankGroupOptions options;
  options.collective_timeout = milliseconds(40);
  options.hooks = std::make_shared<Fault>(1, "AddAlong", [&] {
    gate.pass();
    return Status();
  });
  toy::ToyBackend backend;
  auto group =
      *RankGroup::create(std::make_shared<const Plan>(toy::make_plan("cp=3")), backend, options);
  const std::vector<Tensor> inputs = {numbers({1, 9, 5, 2}, 1), numbers({1, 4}, 1)};
  const Status status = group->run(inputs, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 of 3 did not arrive within 40 ms"));
  gate.open();
  EXPECT_TRUE(group->run(inputs, {}).ok());
}

TEST(RankGroup, RequestsFromManyThreadsTakeTurns) {
  Group group(3);
  std::vector<std::thread> callers;
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        const std::vector<Tensor> inputs = {numbers({1, 5 + i, 3, 2}, round),
                                            numbers({1, 4}, i % 3)};
        const auto outputs = group.group->run(inputs, {});
        ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
        EXPECT_EQ(toy::values((*outputs)[0]), toy::expected_z(inputs[0], inputs[1]));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(RankGroup, StopFailsTheRunningRequestAndLaterOnes) {
  Gate gate;
  Group group(2, std::make_shared<Fault>(1, "AddAlong", [&] {
                gate.pass();
                return Status();
              }));
  std::thread stopper([&] {
    gate.wait_for_visitor();
    group.group->stop();
    gate.open();
  });
  const Status status = group.run();
  stopper.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the rank group is stopped");
  EXPECT_EQ(group.run().message(), "the rank group is stopped");
  EXPECT_FALSE(group.group->is_ready());
}

TEST(RankGroup, AFailedPrologueIsNotKept) {
  auto fault = std::make_shared<Fault>(1, "Positions", [] { return internal_error("lost"); });
  Group group(2, fault);
  EXPECT_THAT(group.run().message(), HasSubstr("rank 1 of 2: "));
  EXPECT_TRUE(group.run().ok());
  EXPECT_EQ(group.group->prologue_stats().misses, 2);
  EXPECT_TRUE(group.run().ok());
  EXPECT_EQ(group.group->prologue_stats().hits, 1);
}

TEST(RankGroup, RefusesOutputMemoryOfAnotherSize) {
  Group group(1);
  RunOptions options;
  options.allocate_output = [](std::size_t, const TensorDesc&) {
    return Tensor::allocate(DType::kFloat32, {1});
  };
  EXPECT_THAT(group.run(options).message(), HasSubstr("output 'z' is given memory for 4 bytes"));
  EXPECT_TRUE(group.run().ok());
}

}  // namespace
}  // namespace tutti
