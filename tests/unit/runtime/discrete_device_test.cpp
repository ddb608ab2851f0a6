// A backend whose memory is not the host's: what a GPU asks of the executor.
#include <gtest/gtest.h>

#include "discrete_backend.h"

namespace tutti {
namespace {

using toy::DiscreteBackend;
using toy::DiscreteDevice;
using toy::Ranges;

TEST(DiscreteDevice, RequestsAreUploadedAndAnswersDownloaded) {
  DiscreteBackend backend;
  auto instance = Instance::load(toy::make_plan("cp=3"), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  for (int step = 0; step < 3; ++step) {
    const Tensor x = toy::numbers({2, 7, 4, 2}, step);
    const Tensor text = toy::numbers({2, 4}, step / 2);
    const auto outputs = (*instance)->infer({{"x", x}, {"text", text}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(toy::values(outputs->at("z")), toy::expected_z(x, text));
    EXPECT_EQ(toy::values(outputs->at("echo")), toy::values(x));
  }
}

TEST(DiscreteDevice, RanksReadTheirPiecesAndNothingElse) {
  DiscreteBackend backend;
  auto instance = Instance::load(toy::plan_of("cp=3", R"(graph @g (%x: f32[2, t], %y: f32[t]) {
    %a = ShardSlice(%x) {axis = "cp", ranks = 3, dim = 1, units = dims[t]}
    %b = ShardSlice(%x) {axis = "cp", ranks = 3, dim = 0, units = dims[2]}
    %ga = AllGather(%a) {axis = "cp", ranks = 3, dim = 1, units = dims[t], size = dims[t]}
    %gb = AllGather(%b) {axis = "cp", ranks = 3, dim = 0, units = dims[2], size = dims[2]}
    %c = ShardSlice(%y) {axis = "cp", ranks = 3, dim = 0, units = dims[t]}
    %gc = AllGather(%c) {axis = "cp", ranks = 3, dim = 0, units = dims[t], size = dims[t]}
    %z = Affine(%y)
    return %ga, %gb, %gc, %z
  })"),
                                 backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  for (const std::int64_t t : {7, 2, 7}) {
    for (DiscreteDevice* rank : backend.ranks) rank->input_bytes = 0;
    const Tensor x = toy::numbers({2, t}, 1);
    const Tensor y = toy::numbers({t}, 2);
    const auto outputs = (*instance)->infer({{"x", x}, {"y", y}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(toy::values(outputs->at("ga")), toy::values(x));
    EXPECT_EQ(toy::values(outputs->at("gb")), toy::values(x));
    EXPECT_EQ(toy::values(outputs->at("gc")), toy::values(y));
    // Of x its pieces; y is wanted whole besides.
    std::size_t total = 0;
    for (const DiscreteDevice* rank : backend.ranks) total += rank->input_bytes;
    EXPECT_EQ(total, 2 * x.byte_size() + 3 * y.byte_size());
  }
}

Tensor on_device(Tensor tensor, Ranges* regions) {
  regions->add(tensor.data(), tensor.byte_size());
  return tensor;
}

TEST(DiscreteDevice, RequestsMayLieInTheMemoryOfADevice) {
  DiscreteBackend backend;
  auto instance = Instance::load(toy::make_plan("cp=3"), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const MemoryPlace place{MemoryPlace::Kind::kDevice, 1};
  for (int step = 0; step < 4; ++step) {
    const Tensor x = on_device(toy::numbers({2, 7, 4, 2}, step), &backend.regions);
    const Tensor text = on_device(toy::numbers({2, 4}, step / 2), &backend.regions);
    RunOptions options;
    options.input_places = {{"x", place}, {"text", place}};
    options.output_places = {{"z", place}};
    options.allocate_output = [&](std::size_t i, const TensorDesc& desc) -> Result<Tensor> {
      TUTTI_ASSIGN_OR_RETURN(Tensor output, Tensor::allocate(desc.dtype, desc.dims));
      return i == 0 ? on_device(std::move(output), &backend.regions) : output;
    };
    const auto outputs = (*instance)->infer({{"x", x}, {"text", text}}, options);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(toy::values(outputs->at("z")), toy::expected_z(x, text));
    EXPECT_EQ(toy::values(outputs->at("echo")), toy::values(x));
  }
  // The prologue's results are known again by the content of what lies there.
  EXPECT_EQ((*instance)->prologue_stats().misses, 2);
  EXPECT_EQ(backend.fetches.load(), 4);
}

// The rank that gets no memory says so, the others come out of their exchanges, and all are kept.
TEST(DiscreteDevice, ARequestThatDoesNotFitIsAnsweredAndTheGroupServesAgain) {
  for (std::size_t full = 0; full < 3; ++full) {
    DiscreteBackend backend;
    auto instance = Instance::load(toy::make_plan("cp=3"), backend);
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    const auto infer = [&](std::int64_t t) {
      const Tensor x = toy::numbers({1, t, 4, 2}, static_cast<int>(t));
      const Tensor text = toy::numbers({1, 4}, static_cast<int>(t));
      RunOptions options;
      options.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      const auto outputs = (*instance)->infer({{"x", x}, {"text", text}}, options);
      if (outputs.ok()) {
        EXPECT_EQ(toy::values(outputs->at("z")), toy::expected_z(x, text));
      }
      return outputs.status();
    };
    EXPECT_TRUE(infer(7).ok());
    DiscreteDevice* rank = backend.ranks[full];
    rank->room = 2000;
    for (int turn = 0; turn < 2; ++turn) {
      const Status refused = infer(500);
      EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.to_string();
      EXPECT_EQ(refused.message().rfind(str_cat("rank ", full, " of 3: no room for "), 0), 0U)
          << refused.message();
      EXPECT_TRUE(infer(7).ok()) << "after a request that was too large";
    }
    rank->room = std::size_t{1} << 40;
    EXPECT_TRUE(infer(500).ok());
    EXPECT_EQ(backend.ranks.size(), 3U) << "no rank was made anew";
  }
}

TEST(DiscreteDevice, MemoryThatIsNotThereIsRefusedByName) {
  DiscreteBackend backend;
  auto instance = Instance::load(toy::make_plan("cp=1"), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const TensorMap inputs = {{"x", toy::numbers({1, 2, 3, 2}, 1)},
                            {"text", toy::numbers({1, 4}, 1)}};
  const auto refusal = [&](const RunOptions& options) {
    const Status status = (*instance)->infer(inputs, options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  RunOptions options;
  options.input_places = {{"x", {MemoryPlace::Kind::kDevice, 1}}};
  EXPECT_EQ(refusal(options), "input 'x': its 48 bytes are not in the memory of device 1");
  options.input_places = {{"y", {MemoryPlace::Kind::kDevice, 1}}};
  EXPECT_EQ(refusal(options), "the place of input 'y' is given, but there is no such input");
  options.input_places = {};
  options.output_places = {{"z", {MemoryPlace::Kind::kDevice, 1}}};
  EXPECT_EQ(refusal(options), "the place of output 'z' is given, but no memory for it");
  options.allocate_output = [](std::size_t, const TensorDesc& desc) {
    return Tensor::allocate(desc.dtype, desc.dims);
  };
  EXPECT_EQ(refusal(options), "output 'z': its 48 bytes are not in the memory of device 1");
  EXPECT_TRUE((*instance)->infer(inputs).ok());
}

TEST(DiscreteDevice, TheCpuReadsHostMemoryOnly) {
  cpu::CpuBackend backend{toy::kernels()};
  auto instance = Instance::load(toy::make_plan("cp=1"), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  RunOptions options;
  options.input_places = {{"x", {MemoryPlace::Kind::kDevice, 0}}};
  const auto refused = (*instance)->infer(
      {{"x", toy::numbers({1, 2, 3, 2}, 1)}, {"text", toy::numbers({1, 4}, 1)}}, options);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      refused.status().message(),
      "input 'x': it lies in the memory of device 0, but the cpu backend reads and writes host "
      "memory only");
}

TEST(DiscreteDevice, AnswersComeBackToBeLentAgain) {
  cpu::CpuBackend backend{toy::kernels()};
  AnswerMemory memory;
  const TensorDesc large{DType::kFloat32, {1 << 15}};
  auto first = memory.allocate(large, backend);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  const std::byte* place = first->data();
  auto second = memory.allocate(large, backend);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(second->data(), place);
  first = Tensor();
  EXPECT_EQ(memory.idle_blocks(), 1U);
  EXPECT_EQ(memory.allocate(large, backend)->data(), place);
  const TensorDesc other{DType::kFloat32, {1 << 16}};
  EXPECT_NE(memory.allocate(other, backend)->data(), place);
}

TEST(DiscreteDevice, OutputsMayBeConstantsAndEachOther) {
  DiscreteBackend backend;
  auto instance = Instance::load(toy::plan_of("", R"(graph @g (%x: f32[2, 3]) {
    %c = constant f32[2] [5, 6]
    %y = Affine(%x)
    %v = View(%y) {shape = dims[6]}
    return %c, %y, %v
  })"),
                                 backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const auto outputs = (*instance)->infer({{"x", toy::numbers({2, 3}, 1)}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(toy::values(outputs->at("c")), (std::vector<float>{5, 6}));
  EXPECT_EQ(toy::values(outputs->at("y")), toy::values(outputs->at("v")));
}

TEST(DiscreteDevice, PrologueResultsMayBeInputsAndEachOther) {
  Plan plan = toy::plan_of("", R"(graph @main (%x: f32[2], %same: f32[2], %twice: f32[2]) {
    %a = Affine(%same)
    %b = Affine(%twice)
    return %a, %b
  })");
  plan.prologue = toy::plan_of("", R"(graph @prologue (%x: f32[2]) {
    %same = View(%x) {shape = dims[2]}
    %twice = View(%same) {shape = dims[2]}
    return %same, %twice
  })")
                      .main;
  plan.inputs = {{"x", DType::kFloat32, {2}}};
  DiscreteBackend backend;
  auto instance = Instance::load(std::move(plan), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const Tensor x = toy::numbers({2}, 1);
  const auto outputs = (*instance)->infer({{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(toy::values(outputs->at("a"))[1], 2 * toy::values(x)[1] + 1);
  EXPECT_EQ(toy::values(outputs->at("b"))[1], 2 * toy::values(x)[1] + 1);
}

TEST(DiscreteDevice, MoreRanksThanDevicesNameBothNumbers) {
  DiscreteBackend backend;
  EXPECT_EQ(Instance::load(toy::make_plan("cp=4"), backend).status().message(),
            "the plan needs 4 ranks (mesh cp=4), but discrete has 3 devices");
}

}  // namespace
}  // namespace tutti
