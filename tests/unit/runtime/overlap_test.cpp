// Requests that travel while another one runs: in which order, and that nothing is overwritten.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "discrete_backend.h"
#include "runtime/rank_group.h"

namespace tutti {
namespace {

// Holds who comes until it is let through.
class Turnstile {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return allowed_ > 0; });
    --allowed_;
    ++left_;
    changed_.notify_all();
  }
  void let(int count) {
    const std::lock_guard lock(mutex_);
    allowed_ += count;
    changed_.notify_all();
  }
  void wait_for_arrivals(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }
  void wait_until_empty() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_ == arrived_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;  // so far
  int left_ = 0;     // so far
  int allowed_ = 0;
};

// Rank 0 stops in the middle of each request.
class Stops final : public RankHooks {
 public:
  Status before_node(int rank, const Node& node) override {
    Turnstile* at = turnstile.load();
    if (rank == 0 && node.type() == "AddAlong" && at != nullptr) at->pass();
    return {};
  }
  std::atomic<Turnstile*> turnstile{nullptr};
};

class Overlap : public ::testing::Test {
 protected:
  void SetUp() override {
    backend_.lends = true;
    RankGroupOptions options;
    options.hooks = stops_;
    options.stall_grace = std::chrono::milliseconds(20);
    auto plan = std::make_shared<const Plan>(toy::make_plan("cp=2"));
    auto made = RankGroup::create(std::move(plan), backend_, options);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    group_ = *std::move(made);
  }

  Status run(int seed, const RunOptions& options = {}) {
    const std::vector<Tensor> inputs = {toy::numbers({1, 1024, 9, 2}, seed),
                                        toy::numbers({1, 4}, seed)};
    const auto outputs = group_->run(inputs, options);
    if (!outputs.ok()) return outputs.status();
    EXPECT_EQ(toy::values((*outputs)[0]), toy::expected_z(inputs[0], inputs[1])) << seed;
    EXPECT_EQ(toy::values((*outputs)[1]), toy::values(inputs[0])) << seed;
    return {};
  }

  toy::DiscreteBackend backend_;
  std::shared_ptr<Stops> stops_ = std::make_shared<Stops>();
  std::unique_ptr<RankGroup> group_;
};

TEST_F(Overlap, InputsGoUpAndAnswersComeDownWhileAnotherRequestRuns) {
  EXPECT_EQ(group_->concurrency(), 2);
  Turnstile turnstile;
  stops_->turnstile = &turnstile;
  std::thread first([&] { EXPECT_TRUE(run(1).ok()); });
  turnstile.wait_for_arrivals(1);
  std::thread second([&] { EXPECT_TRUE(run(2).ok()); });
  backend_.uploads(1);  // the second one's, while the first is held
  turnstile.let(1);
  first.join();
  turnstile.wait_for_arrivals(2);
  std::thread third([&] { EXPECT_TRUE(run(3).ok()); });
  const auto uploads = backend_.uploads(2);
  EXPECT_NE(uploads[0], uploads[1]) << "the second request still runs";
  EXPECT_EQ(backend_.fetches.load(), 0);
  turnstile.let(1);
  turnstile.wait_for_arrivals(3);
  second.join();  // its answer has come down, and the third is held
  EXPECT_EQ(backend_.fetches.load(), 2) << "z and echo";
  turnstile.let(1);
  third.join();
}

TEST_F(Overlap, WhatAStalledRankMayTouchIsNobodyElses) {
  Turnstile stalled;
  Turnstile later;
  stops_->turnstile = &stalled;
  std::thread first([&] { EXPECT_TRUE(run(1).ok()); });
  stalled.wait_for_arrivals(1);
  std::stop_source cancel;
  std::thread second([&] {
    RunOptions options;
    options.cancel = cancel.get_token();
    EXPECT_EQ(run(2, options).code(), StatusCode::kCancelled);
  });
  backend_.uploads(1);
  stalled.let(1);
  first.join();
  stalled.wait_for_arrivals(2);
  cancel.request_stop();
  second.join();  // a rank of it is held all the same
  stops_->turnstile = &later;
  std::thread third([&] { EXPECT_TRUE(run(3).ok()); });
  later.wait_for_arrivals(1);
  std::thread fourth([&] { EXPECT_TRUE(run(4).ok()); });
  const auto uploads = backend_.uploads(2);
  EXPECT_NE(uploads[0], uploads[1]);
  later.let(2);
  third.join();
  fourth.join();
  stalled.let(1);
  stalled.wait_until_empty();
}

TEST_F(Overlap, ManyRequestsWithInputsOfTheirOwn) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 12; ++i) EXPECT_TRUE(run(100 * caller + i).ok());
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_F(Overlap, WithoutRoomOnTheDeviceRequestsGoAsEver) {
  Turnstile turnstile;
  stops_->turnstile = &turnstile;
  backend_.is_full = true;
  std::thread first([&] { EXPECT_TRUE(run(1).ok()); });
  turnstile.wait_for_arrivals(1);
  std::thread second([&] { EXPECT_TRUE(run(2).ok()); });
  turnstile.let(2);
  first.join();
  second.join();
  EXPECT_EQ(backend_.fetches.load(), 0);
}

TEST_F(Overlap, OneRequestAtATimeIsNotCopiedTwice) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(run(i).ok());
  EXPECT_EQ(backend_.uploads(0).size(), 0U);
  EXPECT_EQ(backend_.fetches.load(), 0);
}

TEST_F(Overlap, RunsTellWhenTheirTurnCame) {
  RunTimes times;
  RunOptions options;
  options.times = &times;
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(run(1, options).ok());
  EXPECT_LE(before, times.started);
  EXPECT_LE(times.started, times.finished);
  EXPECT_LE(times.finished, std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace tutti
