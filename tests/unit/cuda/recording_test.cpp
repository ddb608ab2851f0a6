// Recordings that one rank gives up while others go on: streams and cards must stay usable.
#include "backends/cuda/recording.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "comm/local.h"

namespace tutti::cuda {
namespace {

class Ranks : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
    devices_ = count;
  }

  // f(rank, recorder, stream) on a thread a rank.
  template <class F>
  void run(int ranks, F&& f) {
    const auto communicators = make_local_communicators(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const int device = rank % devices_;
        ASSERT_TRUE(activate(device).ok());
        cudaStream_t stream = nullptr;
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        {
          Recorder recorder;
          Communicator* group = communicators[static_cast<std::size_t>(rank)].get();
          ASSERT_TRUE(recorder.set_up(device, stream, group, &captures_).ok());
          f(*group, recorder, stream, device);
        }
        EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  int devices_ = 0;
  SharedCaptures captures_;
};

std::int32_t read_back(const DeviceMemory& memory, cudaStream_t stream) {
  std::int32_t value = -1;
  auto* data = const_cast<DeviceMemory&>(memory).data();
  EXPECT_EQ(cudaMemcpyAsync(&value, data, sizeof value, cudaMemcpyDefault, stream), cudaSuccess);
  const auto done = *Event::create(false);
  EXPECT_EQ(cudaEventRecord(done->get(), stream), cudaSuccess);
  EXPECT_TRUE(wait_for(done->get()).ok());
  return value;
}

TEST_F(Ranks, OneGraphHoldsWhatAllOfThemDid) {
  run(3, [](Communicator&, Recorder& recorder, cudaStream_t stream, int device) {
    auto memory = DeviceMemory::allocate(device, 4);
    ASSERT_TRUE(memory.ok());
    ASSERT_TRUE(recorder.begin().ok());
    EXPECT_EQ(cudaMemsetAsync((*memory)->data(), 1, 4, stream), cudaSuccess);
    auto recording = recorder.end();
    ASSERT_TRUE(recording.ok()) << recording.status().to_string();
    for (int run = 0; run < 3; ++run) {
      ASSERT_EQ(cudaMemsetAsync((*memory)->data(), 0, 4, stream), cudaSuccess);
      const Status replayed = (*recording)->replay();
      ASSERT_TRUE(replayed.ok()) << replayed.to_string();
      EXPECT_EQ(read_back(**memory, stream), 0x01010101);
    }
  });
}

TEST_F(Ranks, AnyOfThemMayGiveARecordingUp) {
  for (const int culprit : {0, 1, 2}) {
    std::barrier begun(3);
    run(3, [&](Communicator& group, Recorder& recorder, cudaStream_t stream, int device) {
      auto memory = DeviceMemory::allocate(device, 4);
      ASSERT_TRUE(memory.ok());
      ASSERT_TRUE(recorder.begin().ok());
      EXPECT_EQ(cudaMemsetAsync((*memory)->data(), 1, 4, stream), cudaSuccess);
      // So that nobody hears of the end before it has begun. Who gets the turn late hears of it
      // here.
      (void)recorder.wait([&] {
        begun.arrive_and_wait();
        return Status();
      });
      if (group.rank() == culprit) {
        recorder.drop();
        group.abort(internal_error("given up"));
      } else {
        EXPECT_FALSE(recorder.end().ok());
        recorder.drop();
      }
      // The stream works as before.
      (void)cudaGetLastError();
      EXPECT_EQ(cudaMemsetAsync((*memory)->data(), 2, 4, stream), cudaSuccess);
      EXPECT_EQ(read_back(**memory, stream), 0x02020202);
    });
  }
}

}  // namespace
}  // namespace tutti::cuda
