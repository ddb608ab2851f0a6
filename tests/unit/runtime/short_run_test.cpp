// Runs that are known to be short are made by the caller's own thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "fault.h"
#include "toy.h"

namespace tutti {
namespace {

using toy::numbers;
using toy::values;

std::function<void()> on_run;  // inside of every kernel

class WatchedKernel final : public Kernel {
 public:
  explicit WatchedKernel(const KernelSpec& spec) : elements_(spec.outputs[0].element_count()) {}
  Status run(const KernelArgs& args) override {
    on_run();
    const auto* in = static_cast<const float*>(args.inputs[0]);
    auto* out = static_cast<float*>(args.outputs[0]);
    for (std::int64_t i = 0; i < elements_; ++i) out[i] = 2 * in[i] + 1;
    return {};
  }

 private:
  const std::int64_t elements_;
};

Result<std::unique_ptr<Kernel>> make_watched(const KernelSpec& spec, cpu::CpuContext&) {
  return std::unique_ptr<Kernel>(std::make_unique<WatchedKernel>(spec));
}

class ShortRuns : public ::testing::Test {
 protected:
  ShortRuns() {
    kernels_.add("Affine", make_watched);
    on_run = [this] { thread_ = std::this_thread::get_id(); };
    auto plan = toy::plan_of("", R"(graph @g (%x: f32[n]) {
      %a = Affine(%x)
      %b = Affine(%a)
      return %b
    })");
    auto made = RankGroup::create(std::make_shared<const Plan>(std::move(plan)), backend_, {});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    group_ = *std::move(made);
  }

  Status run(std::int64_t size, const RunOptions& options = {}) {
    const Tensor x = numbers({size}, 1);
    const auto outputs = group_->run(std::vector<Tensor>{x}, options);
    if (!outputs.ok()) return outputs.status();
    std::vector<float> expected = values(x);
    for (float& value : expected) value = 4 * value + 3;
    EXPECT_EQ(values((*outputs)[0]), expected);
    return {};
  }
  bool ran_here() const { return thread_ == std::this_thread::get_id(); }

  // A run may be held up by whatever else the machine does; one of many is not.
  void run_until_here(std::int64_t size) {
    for (int i = 0; i < 100000 && !ran_here(); ++i) ASSERT_TRUE(run(size).ok());
    ASSERT_TRUE(ran_here());
  }

  cpu::KernelRegistry kernels_;
  cpu::CpuBackend backend_{kernels_};
  std::unique_ptr<RankGroup> group_;
  std::thread::id thread_;
};

TEST_F(ShortRuns, AreMadeByTheCallerOnceTheyAreKnown) {
  ASSERT_TRUE(run(3).ok());
  EXPECT_FALSE(ran_here()) << "nobody knew how long it would take";
  run_until_here(3);
  ASSERT_TRUE(run(5).ok());
  EXPECT_FALSE(ran_here()) << "other sizes may take longer";
}

TEST_F(ShortRuns, ThatTookLongGoBackToTheRank) {
  run_until_here(3);
  on_run = [this] {
    thread_ = std::this_thread::get_id();
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (std::chrono::steady_clock::now() < until) continue;
  };
  ASSERT_TRUE(run(3).ok());
  ASSERT_TRUE(run(3).ok());
  EXPECT_FALSE(ran_here());
}

TEST_F(ShortRuns, GoToTheRankWhenADeadlineIsNear) {
  run_until_here(3);
  thread_ = {};  // on a busy machine the deadline may pass before anything runs
  RunOptions options;
  options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  const Status status = run(3, options);
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kDeadlineExceeded) << status.to_string();
  EXPECT_FALSE(ran_here());
}

TEST_F(ShortRuns, AreCancelledBetweenNodesAndLeaveTheGroupReady) {
  run_until_here(3);
  std::stop_source cancel;
  int kernels = 0;
  on_run = [&] {
    ++kernels;
    thread_ = std::this_thread::get_id();
    cancel.request_stop();
  };
  RunOptions options;
  options.cancel = cancel.get_token();
  EXPECT_EQ(run(3, options).code(), StatusCode::kCancelled);
  EXPECT_TRUE(ran_here());
  EXPECT_EQ(kernels, 1);
  EXPECT_EQ(group_->state(), GroupState::kIdle);
  on_run = [] {};
  EXPECT_TRUE(run(3).ok());
}

TEST_F(ShortRuns, ThatThrowAreAnErrorAndTheGroupIsMadeAnew) {
  run_until_here(3);
  on_run = [this] {
    thread_ = std::this_thread::get_id();
    throw std::runtime_error("boom");
  };
  const Status status = run(3);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "rank 0 of 1: exception: boom");
  EXPECT_TRUE(ran_here());
  on_run = [] {};
  EXPECT_TRUE(run(3).ok());
}

}  // namespace
}  // namespace tutti
