// How requests and weights get to the cards and answers back: words that travel between ranks,
// tensors on a device, pinned answers, pieces of weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "backends/cuda/memory.h"
#include "rank_plans.h"

namespace tutti::cuda {
namespace {

// Every word tells where it belongs and in which run.
Tensor words(Dims dims, std::uint32_t run) {
  Tensor tensor = *Tensor::allocate(DType::kUInt32, std::move(dims));
  auto* data = tensor.mutable_data_as<std::uint32_t>();
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    data[i] = static_cast<std::uint32_t>(i) * 2654435761U + run * 40503U;
  }
  return tensor;
}

std::int64_t wrong_words(const Tensor& got, const Tensor& want) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < want.element_count(); ++i) {
    wrong += got.data_as<std::uint32_t>()[i] != want.data_as<std::uint32_t>()[i] ? 1 : 0;
  }
  return wrong;
}

class RequestMemory : public ::testing::Test {
 protected:
  void SetUp() override { make_backend("push"); }
  void TearDown() override { unsetenv("TUTTI_CUDA_EXCHANGE"); }

  void make_backend(const char* way) {
    setenv("TUTTI_CUDA_EXCHANGE", way, 1);
    auto cuda = CudaBackend::create();
    if (!cuda.ok()) GTEST_SKIP() << cuda.status().message();
    cuda_ = *std::move(cuda);
  }

  std::unique_ptr<Backend> cuda_;
};

// Tokens to heads and back, several times over: what comes out is what went in.
constexpr const char* kThereAndBack = R"(graph (%x: u32[t, h, d]) {
    %p = ShardSlice(%x) {axis = "cp", ranks = $N, dim = 0, units = dims[t]}
    %h1 = AllToAll(%p) {axis = "cp", ranks = $N, from_dims = [0], from_units = dims[t],
      from_replicas = [1], to_dims = [1], to_units = dims[h], to_replicas = [1], sizes = dims[t]}
    %t1 = AllToAll(%h1) {axis = "cp", ranks = $N, from_dims = [1], from_units = dims[h],
      from_replicas = [1], to_dims = [0], to_units = dims[t], to_replicas = [1], sizes = dims[h]}
    %h2 = AllToAll(%t1) {axis = "cp", ranks = $N, from_dims = [0], from_units = dims[t],
      from_replicas = [1], to_dims = [1], to_units = dims[h], to_replicas = [1], sizes = dims[t]}
    %t2 = AllToAll(%h2) {axis = "cp", ranks = $N, from_dims = [1], from_units = dims[h],
      from_replicas = [1], to_dims = [0], to_units = dims[t], to_replicas = [1], sizes = dims[h]}
    %w = AllGather(%t2) {axis = "cp", ranks = $N, dim = 0, units = dims[t], size = dims[t]}
    return %w
  })";

TEST_F(RequestMemory, EveryWordArrivesBetweenRanksOfOneCard) {
  for (const char* way : {"push", "pull"}) {
    make_backend(way);
    auto instance = Instance::load(plan_of(3, kThereAndBack), *cuda_, {0, 0, 0});
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    for (const Dims& dims : {Dims{3, 3, 1}, Dims{7, 5, 3}, Dims{1024, 6, 64}}) {
      for (std::uint32_t run = 0; run < 4; ++run) {
        const Tensor x = words(dims, run);
        const auto got = (*instance)->infer({{"x", x}});
        ASSERT_TRUE(got.ok()) << got.status().to_string();
        EXPECT_EQ(wrong_words(got->at("w"), x), 0) << way << " " << str_cat(dims) << " run " << run;
      }
    }
  }
}

TEST_F(RequestMemory, EveryWordArrivesBetweenCards) {
  const int devices = cuda_->device_count();
  if (devices < 2) GTEST_SKIP() << "needs two GPUs, there is one";
  for (const std::string way : {"push", "pull", "nccl"}) {
    make_backend(way.c_str());
    // Two pairs of ranks load the link in both directions at once. NCCL wants a card a rank.
    for (const int ranks : {2, 4}) {
      if (way == "nccl" && ranks > devices) continue;
      auto instance =
          Instance::load(plan_of(ranks, kThereAndBack), *cuda_, deal_out(ranks, devices));
      ASSERT_TRUE(instance.ok()) << instance.status().to_string();
      for (const Dims& dims : {Dims{4, 4, 1}, Dims{9, 5, 3}, Dims{64, 32, 5}, Dims{500, 32, 64},
                               Dims{4416, 32, 64}, Dims{16384, 32, 64}}) {
        for (std::uint32_t run = 0; run < 6; ++run) {
          const Tensor x = words(dims, run);
          const auto got = (*instance)->infer({{"x", x}});
          ASSERT_TRUE(got.ok()) << got.status().to_string();
          ASSERT_EQ(wrong_words(got->at("w"), x), 0)
              << way << " " << str_cat(dims) << " run " << run << " of " << ranks << " ranks";
        }
      }
    }
  }
}

// Sums travel as contributions and are made in rank order, whichever way they go.
TEST_F(RequestMemory, ReductionsThroughNcclGiveTheBitsOfTheCpu) {
  const int devices = cuda_->device_count();
  if (devices < 2) GTEST_SKIP() << "needs two GPUs, there is one";
  const char* text = R"(graph (%x: f32[t, 6]) {
    %p = ShardSlice(%x) {axis = "cp", ranks = $N, dim = 0, units = dims[t]}
    %g = AllGather(%p) {axis = "cp", ranks = $N, dim = 0, units = dims[t], size = dims[t]}
    %s = AllReduce(%g) {axis = "cp", ranks = $N, op = "sum"}
    %r = ReduceScatter(%g) {axis = "cp", ranks = $N, op = "max", dim = 0, units = dims[t]}
    %m = AllGather(%r) {axis = "cp", ranks = $N, dim = 0, units = dims[t], size = dims[t]}
    return %s, %m
  })";
  make_backend("nccl");
  const auto cpu = cpu::make_cpu_backend();
  auto instance = Instance::load(plan_of(2, text), *cuda_, {0, 1});
  auto reference = Instance::load(plan_of(2, text), *cpu);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  ASSERT_TRUE(reference.ok()) << reference.status().to_string();
  for (const std::int64_t t : {7, 7, 7, 300, 300, 300, 7}) {
    const TensorMap inputs = {{"x", numbers({t, 6}, static_cast<int>(t))}};
    const auto got = (*instance)->infer(inputs);
    const auto want = (*reference)->infer(inputs);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    ASSERT_TRUE(want.ok()) << want.status().to_string();
    for (const auto& [name, tensor] : *want) {
      EXPECT_EQ(got->at(name).to_doubles(), tensor.to_doubles()) << name;
    }
  }
}

TEST_F(RequestMemory, NcclRefusesRanksThatShareACard) {
  make_backend("nccl");
  auto instance = Instance::load(plan_of(2, kThereAndBack), *cuda_, {0, 0});
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const auto refused = (*instance)->infer({{"x", words({4, 4, 1}, 1)}});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(),
              ::testing::AnyOf(::testing::HasSubstr("ranks 0 and 1 share GPU 0"),
                               ::testing::HasSubstr("libnccl.so.2")));
}

// On its last device, so that two cards give one whose memory another rank must reach.
TEST_F(RequestMemory, TensorsMayLieOnADevice) {
  const int device = cuda_->device_count() - 1;
  const MemoryPlace place{MemoryPlace::Kind::kDevice, device};
  auto instance = Instance::load(plan_of(2, kThereAndBack), *cuda_, {0, 0});
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const Dims dims = {40, 6, 16};
  for (std::uint32_t run = 0; run < 4; ++run) {
    const Tensor x = words(dims, run);
    auto input = DeviceMemory::allocate(device, x.byte_size());
    auto output = DeviceMemory::allocate(device, x.byte_size());
    ASSERT_TRUE(input.ok() && output.ok());
    std::byte* address = static_cast<std::byte*>((*input)->data());
    std::byte* answer = static_cast<std::byte*>((*output)->data());
    ASSERT_EQ(cudaMemcpy(address, x.data(), x.byte_size(), cudaMemcpyDefault), cudaSuccess);
    ASSERT_EQ(cudaMemset(answer, 0xff, x.byte_size()), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    RunOptions options;
    options.input_places["x"] = options.output_places["w"] = place;
    options.allocate_output = [&](std::size_t, const TensorDesc& desc) -> Result<Tensor> {
      return Tensor::view(desc.dtype, desc.dims, answer, nullptr);
    };
    const auto got =
        (*instance)->infer({{"x", Tensor::view(DType::kUInt32, dims, address, nullptr)}}, options);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    Tensor back = *Tensor::allocate(DType::kUInt32, dims);
    ASSERT_TRUE(
        cuda_->read_device_memory(back.mutable_data(), device, answer, back.byte_size()).ok());
    EXPECT_EQ(wrong_words(back, x), 0);
    const Tensor lie = Tensor::view(DType::kUInt32, dims, x.data(), nullptr);
    const auto refused = (*instance)->infer({{"x", lie}}, options);
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument)
        << refused.status().to_string();
    EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("input 'x'"));
  }
}

// Two at a time, so that one is on its way while the other runs; each with content of its own.
TEST_F(RequestMemory, RequestsThatOverlapKeepTheirContent) {
  auto instance = Instance::load(plan_of(2, kThereAndBack), *cuda_, {0, 0});
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  EXPECT_EQ((*instance)->group().concurrency(), 2);
  std::vector<std::thread> callers;
  for (std::uint32_t caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      for (std::uint32_t run = 0; run < 20; ++run) {
        // Larger than half of the pinned memory, and smaller.
        const Tensor x =
            words(run % 2 == 0 ? Dims{600, 32, 128} : Dims{40, 32, 64}, 100 * caller + run);
        const auto got = (*instance)->infer({{"x", x}});
        ASSERT_TRUE(got.ok()) << got.status().to_string();
        EXPECT_EQ(wrong_words(got->at("w"), x), 0) << caller << " " << run;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_F(RequestMemory, TensorsGoToADeviceAndBackOutsideOfRanks) {
  const Tensor x = words({5'000'000}, 3);
  auto room = cuda_->allocate_device(0, x.byte_size());
  ASSERT_TRUE(room.ok() && *room != nullptr) << room.status().to_string();
  ASSERT_TRUE(cuda_->write_device_memory(0, room->get(), x.data(), x.byte_size()).ok());
  auto pinned = cuda_->allocate_host(x.byte_size());
  ASSERT_TRUE(pinned.ok());
  Tensor pageable = *Tensor::allocate(DType::kUInt32, x.dims());
  for (std::byte* host : {pinned->get(), pageable.mutable_data()}) {
    ASSERT_TRUE(cuda_->read_device_memory(host, 0, room->get(), x.byte_size()).ok());
    EXPECT_EQ(wrong_words(Tensor::view(DType::kUInt32, x.dims(), host, nullptr), x), 0);
  }
  const Status refused = cuda_->write_device_memory(0, pinned->get(), x.data(), 4);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.to_string();
  EXPECT_EQ(cuda_->allocate_device(99, 4).status().code(), StatusCode::kInvalidArgument);
}

// Handles of other processes are tests/protocol's business: one's own cannot be opened.
TEST_F(RequestMemory, HandlesThatOpenNothingSayWhy) {
  std::vector<std::byte> handle(64);
  const auto refusal = [&](int device) {
    const Status status = cuda_->open_device_memory(device, handle, 16).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.to_string();
    return status.message();
  };
  EXPECT_THAT(refusal(0), ::testing::HasSubstr("opens no memory of device 0"));
  EXPECT_THAT(refusal(99), ::testing::HasSubstr("device 99"));
  auto mine = DeviceMemory::allocate(0, 1 << 20);
  ASSERT_TRUE(mine.ok());
  cudaIpcMemHandle_t own;
  ASSERT_EQ(cudaIpcGetMemHandle(&own, (*mine)->data()), cudaSuccess);
  std::memcpy(handle.data(), &own, sizeof own);
  EXPECT_THAT(refusal(0), ::testing::HasSubstr("opens no memory of device 0"));
  handle.resize(63);
  EXPECT_THAT(refusal(0), ::testing::HasSubstr("has 63 bytes, expected 64"));
}

// All of a card's memory but what it takes to run the small request.
TEST_F(RequestMemory, ARequestThatDoesNotFitIsAnsweredAndTheRanksServeAgain) {
  const char* text = R"(graph (%x: f32[t, 1024]) {
    %p = ShardSlice(%x) {axis = "cp", ranks = $N, dim = 0, units = dims[t]}
    %a = Softmax(%p) {axis = 1}
    %g = AllGather(%a) {axis = "cp", ranks = $N, dim = 0, units = dims[t], size = dims[t]}
    %b = Softmax(%g) {axis = 1}
    return %b
  })";
  auto instance = Instance::load(plan_of(2, text), *cuda_, {0, 0});
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const auto infer = [&](std::int64_t t) {
    RunOptions options;
    options.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    return (*instance)->infer({{"x", numbers({t, 1024}, 1)}}, options).status();
  };
  constexpr std::int64_t kSmall = 64;
  constexpr std::int64_t kLarge = 40'000;  // 0.16 GB a tensor: more than what is left below
  for (int run = 0; run < 3; ++run) EXPECT_TRUE(infer(kSmall).ok());
  std::vector<std::unique_ptr<DeviceMemory>> hog;
  for (std::size_t bytes = std::size_t{8} << 30; bytes >= (std::size_t{128} << 20);) {
    auto block = DeviceMemory::allocate(0, bytes);
    if (block.ok()) {
      hog.push_back(*std::move(block));
    } else {
      bytes /= 2;
    }
  }
  for (int turn = 0; turn < 2; ++turn) {
    const Status refused = infer(kLarge);
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.to_string();
    EXPECT_THAT(refused.message(), ::testing::HasSubstr(" of 2: "));
    EXPECT_THAT(refused.message(), ::testing::HasSubstr(" bytes on GPU 0: cuda: cudaMalloc"));
    for (int run = 0; run < 3; ++run) {
      const Status served = infer(kSmall);
      EXPECT_TRUE(served.ok()) << served.to_string();
    }
  }
  hog.clear();
  const Status served = infer(kLarge);
  EXPECT_TRUE(served.ok()) << served.to_string();
}

TEST_F(RequestMemory, CardsTellWhatTheyAreDoing) {
  const auto load = cuda_->device_load(0);
  ASSERT_TRUE(load.ok()) << load.status().to_string();
  EXPECT_EQ(load->uuid.rfind("GPU-", 0), 0U) << load->uuid;
  EXPECT_GT(load->memory_total_bytes, load->memory_used_bytes);
  EXPECT_GT(load->memory_used_bytes, 0);
  EXPECT_GE(load->utilization, 0);
  EXPECT_LE(load->utilization, 1);
  EXPECT_FALSE(cuda_->device_load(99).ok());
}

TEST_F(RequestMemory, AnswersAreLentFromPinnedMemory) {
  auto instance = Instance::load(plan_of(1, kThereAndBack), *cuda_, {0});
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const Tensor x = words({256, 32, 64}, 1);
  const std::byte* first = nullptr;
  for (int run = 0; run < 4; ++run) {
    const auto got = (*instance)->infer({{"x", x}});
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(wrong_words(got->at("w"), x), 0);
    const std::byte* data = got->at("w").data();
    EXPECT_TRUE(facts_of(data)->is_pinned);
    EXPECT_TRUE(run == 0 || data == first);
    first = data;
  }
  EXPECT_FALSE(facts_of(x.data())->is_pinned);
}

// Larger than the pinned memory that it goes through, in pieces whose rows do not lie side by side.
TEST_F(RequestMemory, LargePiecesGoUpRowByRow) {
  const char* text = R"(graph (%x: u32[b, t, d]) {
    %p = ShardSlice(%x) {axis = "cp", ranks = $N, dim = 1, units = dims[t]}
    %w = AllGather(%p) {axis = "cp", ranks = $N, dim = 1, units = dims[t], size = dims[t]}
    return %w
  })";
  auto instance = Instance::load(plan_of(2, text), *cuda_, {0, 0});
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  // Rows of 12 bytes, of 60 kB, of 6 MB.
  for (const Dims& dims : {Dims{1 << 19, 3, 2}, Dims{700, 3, 10000}, Dims{5, 3, 1500000}}) {
    const Tensor x = words(dims, 7);
    for (int run = 0; run < 3; ++run) {
      const auto got = (*instance)->infer({{"x", x}});
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      EXPECT_EQ(wrong_words(got->at("w"), x), 0) << str_cat(dims);
    }
  }
}

// Columns of a weight do not lie side by side: the rank's piece is cut on the host and goes.
TEST_F(RequestMemory, PiecesOfWeightsAreRightForEverySize) {
  const char* text = R"(graph (%x: f32[t, 4]) {
    %w = constant f32[4, 6] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
      22, 23, 24]
    %p = ShardSlice(%w) {axis = "cp", ranks = $N, dim = 1, units = dims[6]}
    %y = MatMul(%x, %p)
    %z = AllGather(%y) {axis = "cp", ranks = $N, dim = 1, units = dims[6], size = dims[6]}
    return %z
  })";
  const auto cpu = cpu::make_cpu_backend();
  auto instance = Instance::load(plan_of(2, text), *cuda_, {0, 0});
  auto reference = Instance::load(plan_of(2, text), *cpu);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  ASSERT_TRUE(reference.ok()) << reference.status().to_string();
  for (const std::int64_t t : {5, 9, 5, 2, 9}) {
    for (int run = 0; run < 3; ++run) {
      const TensorMap inputs = {{"x", numbers({t, 4}, run)}};
      const auto got = (*instance)->infer(inputs);
      const auto want = (*reference)->infer(inputs);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      ASSERT_TRUE(want.ok()) << want.status().to_string();
      EXPECT_EQ(got->at("z").to_doubles(), want->at("z").to_doubles());
    }
  }
}

}  // namespace
}  // namespace tutti::cuda
