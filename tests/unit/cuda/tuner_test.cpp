// Ways that differ by what they copy: which is chosen, and where that is remembered.
#include "backends/cuda/tuner.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "backends/cuda/memory.h"
#include "support/temp_folder.h"

namespace tutti::cuda {
namespace {

namespace fs = std::filesystem;

class TunerTest : public ::testing::Test {
 protected:
  TunedWay way(const std::string& name, Status status, int* count) {
    return {name, [status, count] {
              ++*count;
              return status;
            }};
  }

  // By another process.
  std::string known_on_disk(const std::string& key) {
    ArtifactStore store(folder_);
    return Tuner(store, "card", 0).known(key);
  }

  const test::TempFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(TunerTest, TakesTheOnlyWayWithoutMeasuring) {
  ArtifactStore tuner_store(folder_);
  Tuner tuner(tuner_store, "card", 0);
  int count = 0;
  const std::array ways{way("only", Status(), &count)};
  EXPECT_EQ(*tuner.fastest("key", nullptr, ways), 0);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(tuner.known("key"), "");
}

TEST_F(TunerTest, RefusesToChooseAmongNothing) {
  ArtifactStore tuner_store(folder_);
  Tuner tuner(tuner_store, "card", 0);
  EXPECT_FALSE(tuner.fastest("key", nullptr, {}).ok());
}

class TunerOnGpu : public TunerTest {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
    auto memory = DeviceMemory::allocate(0, kBytes);
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    memory_ = *std::move(memory);
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  void TearDown() override {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }
  TunedWay fill(const std::string& name, std::size_t bytes, int* count) {
    return {name, [this, bytes, count] {
              ++*count;
              return to_status(cudaMemsetAsync(memory_->data(), 0, bytes, stream_), "memset");
            }};
  }

  static constexpr std::size_t kBytes = std::size_t{1} << 30;
  std::unique_ptr<DeviceMemory> memory_;
  cudaStream_t stream_ = nullptr;
};

TEST_F(TunerOnGpu, KeepsTheFastestForTheSameMachineAndKey) {
  int slow = 0;
  int fast = 0;
  const std::array ways{fill("slow", kBytes, &slow), fill("fast", 64, &fast)};
  ArtifactStore first_store(folder_);
  Tuner first(first_store, "card", 0);
  EXPECT_EQ(*first.fastest("key", stream_, ways), 1);
  EXPECT_GT(slow, 1);
  EXPECT_GT(fast, 1);
  EXPECT_EQ(first.known("key"), "fast");
  EXPECT_EQ(first.known("another key"), "");
  slow = fast = 0;
  ArtifactStore second_store(folder_);
  Tuner second(second_store, "card", 0);
  EXPECT_EQ(*second.fastest("key", stream_, ways), 1);
  EXPECT_EQ(slow + fast, 0);  // read, not measured
  ArtifactStore another_store(folder_);
  Tuner another(another_store, "another card", 0);
  EXPECT_EQ(another.known("key"), "");
}

TEST_F(TunerOnGpu, MeasuresAgainWhenTheFileIsBrokenOrItsWayIsGone) {
  int count = 0;
  const std::array ways{fill("slow", kBytes, &count), fill("fast", 64, &count)};
  ArtifactStore first_store(folder_);
  Tuner first(first_store, "card", 0);
  ASSERT_TRUE(first.fastest("key", stream_, ways).ok());
  for (const auto& file : fs::directory_iterator(folder_)) std::ofstream(file.path()) << "card\n";
  EXPECT_EQ(known_on_disk("key"), "");
  const std::array others{fill("other", kBytes, &count), fill("third", 64, &count)};
  ArtifactStore second_store(folder_);
  Tuner second(second_store, "card", 0);
  EXPECT_EQ(*second.fastest("key", stream_, others), 1);
  EXPECT_EQ(second.known("key"), "third");
}

TEST_F(TunerOnGpu, PassesOverWaysThatFail) {
  int count = 0;
  ArtifactStore tuner_store(folder_);
  Tuner tuner(tuner_store, "card", 0);
  const std::array ways{way("broken", internal_error("no"), &count), fill("works", 64, &count)};
  EXPECT_EQ(*tuner.fastest("key", stream_, ways), 1);
  const std::array broken{way("a", internal_error("no"), &count),
                          way("b", internal_error("never"), &count)};
  const auto none = tuner.fastest("none", stream_, broken);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().message(), "never");
}

}  // namespace
}  // namespace tutti::cuda
