#include "runtime/instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "fault.h"
#include "support/temp_folder.h"
#include "toy.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using toy::numbers;
using toy::values;

std::unique_ptr<Instance> load(Plan plan, Backend& backend, InstanceOptions options = {}) {
  auto instance = Instance::load(std::move(plan), backend, {}, std::move(options));
  EXPECT_TRUE(instance.ok()) << instance.status().to_string();
  return *std::move(instance);
}

void expect_right(Instance& instance, const Tensor& x, const Tensor& text) {
  const auto outputs = instance.infer({{"x", x}, {"text", text}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(values(outputs->at("z")), toy::expected_z(x, text));
  EXPECT_EQ(outputs->at("z").dims(), x.dims());
  EXPECT_EQ(values(outputs->at("echo")), values(x));
  std::vector<float> context = values(text);
  for (float& value : context) value = 2 * value + 1;
  EXPECT_EQ(values(outputs->at("context")), context);
}

class InstanceOfRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, InstanceOfRanks, ::testing::Values(1, 2, 3, 4, 8));

TEST_P(InstanceOfRanks, EqualsTheModelWithoutRanksForEverySize) {
  toy::ToyBackend backend;
  const auto instance = load(toy::make_plan("cp=" + std::to_string(GetParam())), backend);
  // Tokens and heads that do not divide, fewer tokens or heads than ranks, nothing at all.
  for (const Dims& dims : std::vector<Dims>{{1, 16, 8, 2},
                                            {2, 5, 3, 2},
                                            {1, 1, 1, 2},
                                            {3, 13, 2, 2},
                                            {1, 0, 4, 2},
                                            {0, 4, 4, 2},
                                            {2, 5, 3, 2}}) {
    SCOPED_TRACE(str_cat(dims));
    expect_right(*instance, numbers(dims, 1), numbers({dims[0], 4}, 2));
  }
}

TEST(Instance, CachesThePrologueByContent) {
  toy::ToyBackend backend;
  InstanceOptions options;
  options.group.prologue_capacity = 2;
  const auto instance = load(toy::make_plan("cp=2"), backend, options);
  const Tensor red = numbers({1, 4}, 1);
  const Tensor blue = numbers({1, 4}, 2);
  const Tensor green = numbers({1, 4}, 3);
  for (int step = 0; step < 5; ++step) {  // two branches of guidance take turns
    expect_right(*instance, numbers({1, 6, 4, 2}, step), red);
    expect_right(*instance, numbers({1, 6, 4, 2}, step), blue);
  }
  EXPECT_EQ(instance->prologue_stats().misses, 2);
  EXPECT_EQ(instance->prologue_stats().hits, 8);
  expect_right(*instance, numbers({1, 6, 4, 2}, 7), green);  // red goes
  expect_right(*instance, numbers({1, 6, 4, 2}, 7), blue);
  expect_right(*instance, numbers({1, 6, 4, 2}, 7), red);
  EXPECT_EQ(instance->prologue_stats().misses, 4);
  // Equal content in other memory is the same content; the same content of another size is not.
  expect_right(*instance, numbers({1, 6, 4, 2}, 7), numbers({1, 4}, 1));
  EXPECT_EQ(instance->prologue_stats().misses, 4);
  expect_right(*instance, numbers({1, 7, 4, 2}, 7), numbers({1, 4}, 1));
  EXPECT_EQ(instance->prologue_stats().misses, 5);
}

TEST(Instance, NamesInputsThatAreMissingUnknownOrWrong) {
  toy::ToyBackend backend;
  const auto instance = load(toy::make_plan("cp=2"), backend);
  const Tensor x = numbers({1, 6, 4, 2}, 1);
  const Tensor text = numbers({1, 4}, 1);
  const auto error = [&](const TensorMap& inputs) {
    const auto outputs = instance->infer(inputs);
    EXPECT_EQ(outputs.status().code(), StatusCode::kInvalidArgument);
    return outputs.status().message();
  };
  EXPECT_EQ(error({{"x", x}}), "input 'text' is missing");
  EXPECT_EQ(error({{"x", x}, {"text", text}, {"y", x}}),
            "input 'y' is unknown; the inputs are 'x', 'text'");
  EXPECT_EQ(error({{"x", *Tensor::allocate(DType::kInt64, {1, 6, 4, 2})}, {"text", text}}),
            "input 'x': element type i64, expected f32");
  EXPECT_EQ(error({{"x", numbers({1, 6, 4, 3}, 1)}, {"text", text}}),
            "input 'x': shape [1,6,4,3] does not fit [b,t,h,2] at dimension 3");
  EXPECT_EQ(error({{"x", x}, {"text", numbers({2, 4}, 1)}}),
            "input 'text': shape [2,4] does not fit [b,e] at dimension 0: b is 1 elsewhere");
  expect_right(*instance, x, text);
}

TEST(Instance, NamesBothNumbersWhenDevicesAndRanksDiffer) {
  toy::ToyBackend backend;
  const auto instance = Instance::load(toy::make_plan("cp=4"), backend, {0, 1});
  EXPECT_EQ(instance.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(instance.status().message(),
            "the plan was compiled for 4 ranks (mesh cp=4), but 2 devices are given");
  EXPECT_TRUE(Instance::load(toy::make_plan("cp=2"), backend, {3, 3}).ok()) << "CPU ids may repeat";
  EXPECT_THAT(Instance::load(toy::make_plan("cp=2"), backend, {0, 99}).status().message(),
              HasSubstr("device 99 of rank 1"));
}

TEST(Instance, FailsToLoadAFixedPlanThatTheBackendCannotRun) {
  toy::ToyBackend backend;
  const auto instance = Instance::load(
      toy::plan_of("", "graph @g (%x: f32[2]) {\n  %y = Unknown(%x) @strange\n  return %y\n}"),
      backend);
  EXPECT_EQ(instance.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(instance.status().message(), HasSubstr("'strange'"));
  EXPECT_THAT(instance.status().message(), HasSubstr("cpu backend has no kernel for Unknown"));
}

TEST(Instance, OutputsMayBeInputsConstantsViewsAndEachOther) {
  toy::ToyBackend backend;
  const auto instance = load(toy::plan_of("", R"(graph @g (%x: f32[2, 3]) {
    %c = constant f32[2] [5, 6]
    %y = Affine(%x)
    %v = View(%y) {shape = dims[3, 2]}
    %w = View(%x) {shape = dims[6]}
    return %x, %c, %y, %v, %w
  })"),
                             backend);
  const Tensor x = numbers({2, 3}, 1);
  const auto outputs = instance->infer({{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  std::vector<float> y = values(x);
  for (float& value : y) value = 2 * value + 1;
  EXPECT_EQ(values(outputs->at("x")), values(x));
  EXPECT_NE(outputs->at("x").data(), x.data()) << "an answer of its own";
  EXPECT_EQ(values(outputs->at("c")), (std::vector<float>{5, 6}));
  EXPECT_EQ(values(outputs->at("y")), y);
  EXPECT_EQ(values(outputs->at("v")), y);
  EXPECT_EQ(outputs->at("v").dims(), (Dims{3, 2}));
  EXPECT_EQ(values(outputs->at("w")), values(x));
}

TEST(Instance, WritesIntoMemoryThatTheCallerGives) {
  toy::ToyBackend backend;
  const auto instance = load(toy::make_plan("cp=3"), backend);
  const Tensor x = numbers({1, 7, 4, 2}, 1);
  const Tensor text = numbers({1, 4}, 1);
  // One byte off: kernels get aligned memory all the same.
  for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
    auto memory = std::make_shared<std::vector<std::byte>>(4096);
    RunOptions options;
    options.allocate_output = [&](std::size_t output, const TensorDesc& desc) -> Result<Tensor> {
      return Tensor::view(desc.dtype, desc.dims, memory->data() + 1024 * output + shift, memory);
    };
    const auto outputs = instance->infer({{"x", x}, {"text", text}}, options);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(outputs->at("z").data(), memory->data() + shift);
    std::vector<float> z(static_cast<std::size_t>(x.element_count()));
    std::memcpy(z.data(), memory->data() + shift, z.size() * 4);
    EXPECT_EQ(z, toy::expected_z(x, text));
  }
}

TEST(Instance, TakesInputsThatBeginAnywhere) {
  toy::ToyBackend backend;
  const auto instance = load(toy::make_plan("cp=2"), backend);
  const Tensor x = numbers({1, 7, 4, 2}, 1);
  const Tensor text = numbers({1, 4}, 1);
  auto memory = std::make_shared<std::vector<std::byte>>(x.byte_size() + 1);
  std::memcpy(memory->data() + 1, x.data(), x.byte_size());
  const Tensor shifted = Tensor::view(DType::kFloat32, x.dims(), memory->data() + 1, memory);
  const auto outputs = instance->infer({{"x", shifted}, {"text", text}});
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ(values(outputs->at("z")), toy::expected_z(x, text));
}

TEST(Instance, ReportsMemoryAndTimeByRank) {
  toy::ToyBackend backend;
  const auto instance = load(toy::make_plan("cp=2"), backend);
  RunOptions options;
  options.is_profiled = true;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        instance->infer({{"x", numbers({1, 64, 4, 2}, i)}, {"text", numbers({1, 4}, 1)}}, options)
            .ok());
  }
  const MemoryReport memory = instance->memory();
  ASSERT_EQ(memory.ranks.size(), 2U);
  EXPECT_GE(memory.ranks[1].arena_bytes, 64U * 4 * 2 * 4) << "at least one whole value";
  EXPECT_EQ(memory.ranks[1].prologue_bytes, 64U + 64 * 4);
  const std::vector<RankProfile> profiles = instance->group().take_profiles();
  ASSERT_EQ(profiles.size(), 2U);
  for (const RankProfile& profile : profiles) {
    const auto calls_of = [&](const std::string& op) {
      for (const OpTime& row : profile) {
        if (row.op == op) return row.calls;
      }
      return std::int64_t{0};
    };
    EXPECT_EQ(calls_of("AllToAll"), 6);
    EXPECT_EQ(calls_of("Affine"), 3 + 1) << "the prologue's once";
    EXPECT_EQ(calls_of("View"), 0) << "views are not run";
  }
  EXPECT_TRUE(instance->group().take_profiles()[0].empty()) << "taken once";
}

TEST(Instance, TellsWhatEachRankDidInARunAndSinceTheStart) {
  toy::ToyBackend backend;
  const auto instance = load(toy::make_plan("cp=2"), backend);
  std::vector<RankRun> runs;
  RunOptions options;
  options.rank_runs = &runs;
  std::vector<RankUse> expected(2);
  for (int i = 0; i < 3; ++i) {
    const auto before = std::chrono::steady_clock::now();
    ASSERT_TRUE(
        instance->infer({{"x", numbers({1, 64, 4, 2}, i)}, {"text", numbers({1, 4}, 1)}}, options)
            .ok());
    ASSERT_EQ(runs.size(), 2U);
    for (std::size_t rank = 0; rank < runs.size(); ++rank) {
      EXPECT_GE(runs[rank].started, before);
      EXPECT_LE(runs[rank].finished, std::chrono::steady_clock::now());
      EXPECT_GT(runs[rank].exchange.count(), 0) << "each run has exchanges";
      EXPECT_LE(runs[rank].exchange, runs[rank].finished - runs[rank].started);
      expected[rank].run += runs[rank].finished - runs[rank].started;
      expected[rank].exchange += runs[rank].exchange;
    }
  }
  const std::vector<RankUse> use = instance->group().use();
  ASSERT_EQ(use.size(), 2U);
  for (std::size_t rank = 0; rank < use.size(); ++rank) {
    EXPECT_EQ(use[rank].run, expected[rank].run) << "loading counts for nothing";
    EXPECT_EQ(use[rank].exchange, expected[rank].exchange);
    EXPECT_EQ(use[rank].sent_bytes, instance->group().sent_bytes()[rank]);
  }
}

TEST(Instance, ExchangesSendTheArithmeticMinimum) {
  toy::ToyBackend backend;
  const auto instance = load(toy::make_plan("cp=4"), backend);
  const auto run = [&] {
    ASSERT_TRUE(
        instance->infer({{"x", numbers({1, 16, 8, 2}, 1)}, {"text", numbers({1, 4}, 1)}}).ok());
  };
  run();
  run();
  // 16 * 8 * 2 floats over 4 ranks: each all-to-all sends 3/4 of a rank's quarter, and the gather
  // all of it to 3 others. Slices are free.
  const std::int64_t quarter = 16 * 8 * 2 * 4 / 4;
  for (const std::int64_t bytes : instance->group().sent_bytes()) {
    EXPECT_EQ(bytes, 2 * (2 * quarter * 3 / 4 + 3 * quarter));
  }
}

TEST(Instance, GivesEveryRankAtLeastOneThread) {
  toy::ToyBackend backend;
  EXPECT_GE(load(toy::make_plan("cp=8"), backend)->group().threads_per_rank(), 1);
}

TEST(Instance, SharesAPlanWithOthers) {
  toy::ToyBackend backend;
  const auto plan = std::make_shared<const Plan>(toy::make_plan("cp=2"));
  const auto first = Instance::load(plan, backend);
  const auto second = Instance::load(plan, backend);
  ASSERT_TRUE(first.ok() && second.ok());
  expect_right(**first, numbers({1, 7, 4, 2}, 1), numbers({1, 4}, 1));
  expect_right(**second, numbers({1, 5, 4, 2}, 1), numbers({1, 4}, 1));
}

TEST(Instance, LoadsAPlanFile) {
  const test::TempFolder folder;
  const std::string path = folder.file("toy.plan");
  const Status written = write_plan(toy::make_plan("cp=3"), path);
  ASSERT_TRUE(written.ok()) << written.to_string();
  toy::ToyBackend backend;
  const auto instance = Instance::load(path, toy::ops(), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  expect_right(**instance, numbers({1, 7, 4, 2}, 1), numbers({1, 4}, 1));
  EXPECT_FALSE(Instance::load(path + ".absent", toy::ops(), backend).ok());
}

}  // namespace
}  // namespace tutti
