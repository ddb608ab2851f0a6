// A device that records: which runs go step by step, which are noted, which are repeated.
#include <gtest/gtest.h>

#include <deque>

#include "runtime/instance.h"
#include "support/host_rank.h"
#include "toy.h"

namespace tutti {
namespace {

struct Counts {
  int runs = 0;        // of kernels, step by step
  int noted = 0;       // kernels in recordings
  int recordings = 0;  // made
  int replays = 0;
};

// What a kernel was asked to do.
struct Call {
  Kernel* kernel = nullptr;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
};

struct Tape {
  Counts counts;
  bool is_recording = false;
  bool has_exchanges = false;
  std::vector<Call> calls;
};

class TapedKernel final : public Kernel {
 public:
  TapedKernel(std::unique_ptr<Kernel> kernel, Tape& tape)
      : kernel_(std::move(kernel)), tape_(tape) {}
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  Status run(const KernelArgs& args) override {
    if (!tape_.is_recording) {
      ++tape_.counts.runs;
      return kernel_->run(args);
    }
    ++tape_.counts.noted;
    tape_.calls.push_back({kernel_.get(),
                           {args.inputs.begin(), args.inputs.end()},
                           {args.outputs.begin(), args.outputs.end()},
                           args.workspace});
    return {};
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  Tape& tape_;
};

class TapedCalls final : public Recording {
 public:
  TapedCalls(std::vector<Call> calls, Tape& tape) : calls_(std::move(calls)), tape_(tape) {}
  Status replay() override {
    ++tape_.counts.replays;
    for (const Call& call : calls_) {
      TUTTI_RETURN_IF_ERROR(call.kernel->run({call.inputs, call.outputs, call.workspace}));
    }
    return {};
  }

 private:
  std::vector<Call> calls_;
  Tape& tape_;
};

// Host memory that does not say so: requests are copied into the arena, as on a GPU.
class TapedDevice final : public test::HostRank {
 public:
  TapedDevice(std::unique_ptr<RankDevice> host, Tape& tape)
      : HostRank(std::move(host)), tape_(tape) {}
  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, HostRank::make_kernel(spec));
    return std::unique_ptr<Kernel>(std::make_unique<TapedKernel>(std::move(kernel), tape_));
  }
  bool can_record() const override { return true; }
  bool records_exchanges() const override { return tape_.has_exchanges; }
  void drop_recording() override {
    tape_.is_recording = false;
    tape_.calls.clear();
  }
  Status begin_recording() override {
    tape_.is_recording = true;
    return {};
  }
  Result<std::unique_ptr<Recording>> end_recording() override {
    tape_.is_recording = false;
    ++tape_.counts.recordings;
    return std::unique_ptr<Recording>(
        std::make_unique<TapedCalls>(std::exchange(tape_.calls, {}), tape_));
  }

 private:
  Tape& tape_;
};

class TapedBackend final : public Backend {
 public:
  std::string name() const override { return "taped"; }
  int device_count() const override { return 4; }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RankDevice> host, cpu_.create_rank(options));
    Tape& tape = tapes.emplace_back();
    tape.has_exchanges = records_exchanges;
    return std::unique_ptr<RankDevice>(std::make_unique<TapedDevice>(std::move(host), tape));
  }
  std::deque<Tape> tapes;  // by rank
  bool records_exchanges = false;

 private:
  cpu::CpuBackend cpu_{toy::kernels()};
};

constexpr const char* kChain = R"(graph @g (%x: f32[n]) {
  %a = Affine(%x)
  %b = Affine(%a)
  %c = Affine(%b)
  return %c
})";

std::vector<float> chained(const Tensor& x) {
  std::vector<float> values = toy::values(x);
  for (float& value : values) value = 8 * value + 7;
  return values;
}

TEST(Recording, TheFirstRunGoesStepByStepTheSecondIsRecordedLaterOnesRepeat) {
  TapedBackend backend;
  auto instance = Instance::load(toy::plan_of("", kChain), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  for (int step = 0; step < 5; ++step) {
    const Tensor x = toy::numbers({6}, step);
    const auto outputs = (*instance)->infer({{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(toy::values(outputs->at("c")), chained(x));
  }
  const Counts& counts = backend.tapes[0].counts;
  EXPECT_EQ(counts.runs, 3);
  EXPECT_EQ(counts.noted, 3);
  EXPECT_EQ(counts.recordings, 1);
  EXPECT_EQ(counts.replays, 4);
}

TEST(Recording, SizesHaveRecordingsOfTheirOwn) {
  TapedBackend backend;
  auto instance = Instance::load(toy::plan_of("", kChain), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  // The larger size first: the arena stays where it is.
  for (int step = 0; step < 6; ++step) {
    const Tensor x = toy::numbers({step % 2 == 0 ? 9 : 4}, step);
    const auto outputs = (*instance)->infer({{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(toy::values(outputs->at("c")), chained(x));
  }
  EXPECT_EQ(backend.tapes[0].counts.recordings, 2);
  EXPECT_EQ(backend.tapes[0].counts.replays, 4);
}

TEST(Recording, ALargerArenaMakesOldRecordingsUnused) {
  TapedBackend backend;
  auto instance = Instance::load(toy::plan_of("", kChain), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  for (const int size : {4, 4, 4, 5000, 4, 4, 4}) {
    const Tensor x = toy::numbers({size}, size);
    const auto outputs = (*instance)->infer({{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(toy::values(outputs->at("c")), chained(x));
  }
}

TEST(Recording, ShortStretchesAndProfiledRunsGoStepByStep) {
  TapedBackend backend;
  auto instance = Instance::load(toy::plan_of("", R"(graph @g (%x: f32[n]) {
    %a = Affine(%x)
    %b = Affine(%a)
    return %b
  })"),
                                 backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE((*instance)->infer({{"x", toy::numbers({3}, step)}}).ok());
  }
  EXPECT_EQ(backend.tapes[0].counts.recordings, 0);
  EXPECT_EQ(backend.tapes[0].counts.runs, 6);

  TapedBackend watched;
  auto longer = Instance::load(toy::plan_of("", kChain), watched);
  ASSERT_TRUE(longer.ok()) << longer.status().to_string();
  RunOptions profiled;
  profiled.is_profiled = true;
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE((*longer)->infer({{"x", toy::numbers({3}, step)}}, profiled).ok());
  }
  EXPECT_EQ(watched.tapes[0].counts.recordings, 0);
}

TEST(Recording, WithExchangesAProgramIsOneRecordingOnEveryRank) {
  TapedBackend backend;
  backend.records_exchanges = true;
  auto instance = Instance::load(toy::make_plan("cp=3"), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const Tensor text = toy::numbers({2, 4}, 1);
  // Fewer heads than ranks: one rank has nothing to compute between the exchanges.
  for (const std::int64_t heads : {2, 5}) {
    for (Tape& tape : backend.tapes) tape.counts = {};
    for (int step = 0; step < 5; ++step) {
      const Tensor x = toy::numbers({2, 7, heads, 2}, step);
      const auto outputs = (*instance)->infer({{"x", x}, {"text", text}});
      ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
      EXPECT_EQ(toy::values(outputs->at("z")), toy::expected_z(x, text));
    }
    for (const Tape& tape : backend.tapes) {
      EXPECT_EQ(tape.counts.recordings, 1);
      EXPECT_EQ(tape.counts.replays, 4);
    }
  }
}

// After a request that one rank alone refused, the others still have their recordings.
TEST(Recording, RanksThatRememberDifferentThingsAgreeOnWhatAllCanDo) {
  TapedBackend backend;
  backend.records_exchanges = true;
  auto instance = Instance::load(toy::plan_of("cp=2", R"(graph @g (%x: f32[t]) {
    %p = ShardSlice(%x) {axis = "cp", ranks = 2, dim = 0, units = dims[t]}
    %g = AllGather(%p) {axis = "cp", ranks = 2, dim = 0, units = dims[t], size = dims[t]}
    %q = ShardSlice(%g) {axis = "cp", ranks = 2, dim = 0, units = dims[t]}
    %a = Affine(%q)
    %y = AllGather(%a) {axis = "cp", ranks = 2, dim = 0, units = dims[t], size = dims[t]}
    %r = ShardSlice(%y) {axis = "cp", ranks = 2, dim = 0, units = dims[t]}
    %b = Affine(%r)
    return %y
  })"),
                                 backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const auto expect_right = [&](int seed) {
    const Tensor x = toy::numbers({6}, seed);
    const auto outputs = (*instance)->infer({{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    std::vector<float> y = toy::values(x);
    for (float& value : y) value = 2 * value + 1;
    EXPECT_EQ(toy::values(outputs->at("y")), y);
  };
  for (int seed = 0; seed < 3; ++seed) expect_right(seed);
  Tensor bad = toy::numbers({6}, 1);
  bad.mutable_data_as<float>()[5] = 500;  // rank 1 refuses what it makes of it, at the very end
  const auto refused = (*instance)->infer({{"x", bad}});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument) << refused.status().to_string();
  for (int seed = 0; seed < 5; ++seed) expect_right(seed);
  EXPECT_EQ(backend.tapes.size(), 2U) << "the ranks were kept";
  EXPECT_EQ(backend.tapes[0].counts.recordings, 2);
  EXPECT_EQ(backend.tapes[1].counts.recordings, 2);
}

}  // namespace
}  // namespace tutti
