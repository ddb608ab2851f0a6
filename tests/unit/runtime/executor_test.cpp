#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "comm/mesh_communicators.h"
#include "count_allocations.h"
#include "toy.h"

namespace tutti {
namespace {

using toy::numbers;

// The ranks of a plan without a group around them.
class Ranks {
 public:
  explicit Ranks(Plan plan, ExecutorOptions options = {}) : plan_(std::move(plan)) {
    communicators_ = make_mesh_communicators(plan_.mesh);
    for (int rank = 0; rank < plan_.mesh.num_ranks(); ++rank) {
      RankDeviceOptions device;
      device.rank = rank;
      device.communicators = communicators_[static_cast<std::size_t>(rank)];
      for (const MeshAxis& axis : plan_.mesh.axes()) device.axes.push_back(axis.name);
      options.rank = rank;
      options.gives_outputs = rank == 0;
      auto executor = Executor::create(plan_, *backend_.create_rank(device), options);
      EXPECT_TRUE(executor.ok()) << executor.status().to_string();
      executors_.push_back(*std::move(executor));
    }
  }

  // The same request `times` times, all ranks in step; allocations by rank in the last round.
  std::vector<std::int64_t> run(const Tensor& x, const Tensor& text, int times) {
    RankJob job;
    job.inputs = {x, text};
    std::vector<TensorDesc> descs = {x.desc(), text.desc()};
    job.shapes = *bind_shapes(plan_, descs);
    for (const TensorDesc& desc : job.shapes->outputs) {
      job.outputs.push_back(*Tensor::allocate(desc.dtype, desc.dims));
    }
    job.prologue_slot = 0;
    job.runs_prologue = true;
    std::vector<std::int64_t> counts(executors_.size());
    std::barrier round(static_cast<std::ptrdiff_t>(executors_.size()));
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < executors_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        for (int i = 0; i < times; ++i) {
          round.arrive_and_wait();
          const std::int64_t before = toy::allocations_of_this_thread();
          const Status status = executors_[rank]->run(job);
          counts[rank] = toy::allocations_of_this_thread() - before;
          EXPECT_TRUE(status.ok()) << status.to_string();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(toy::values(job.outputs[0]), toy::expected_z(x, text));
    return counts;
  }

  Executor& rank(std::size_t i) { return *executors_[i]; }

 private:
  const Plan plan_;
  cpu::CpuBackend backend_{toy::kernels()};
  std::vector<std::vector<std::shared_ptr<Communicator>>> communicators_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

TEST(Executor, AllocatesNothingInTheSteadyState) {
  for (const char* mesh : {"cp=1", "cp=4"}) {
    Ranks ranks(toy::make_plan(mesh));
    const Tensor x = numbers({2, 9, 5, 2}, 1);
    const Tensor text = numbers({2, 4}, 1);
    for (const std::int64_t count : ranks.run(x, text, 1)) EXPECT_GT(count, 0);
    for (const std::int64_t count : ranks.run(x, text, 3)) EXPECT_EQ(count, 0) << mesh;
  }
}

TEST(Executor, KeepsKernelsForSizesThatComeBack) {
  Ranks ranks(toy::make_plan("cp=2"));
  const Tensor text = numbers({1, 4}, 1);
  const Tensor large = numbers({1, 90, 5, 2}, 1);
  const Tensor small = numbers({1, 3, 5, 2}, 1);
  (void)ranks.run(small, text, 1);
  const std::size_t small_arena = ranks.rank(0).memory().arena_bytes;
  (void)ranks.run(large, text, 1);
  const std::size_t large_arena = ranks.rank(0).memory().arena_bytes;
  EXPECT_GT(large_arena, small_arena);
  // One arena for both: the small request finds its addresses in the new one.
  for (const std::int64_t count : ranks.run(small, text, 1)) EXPECT_EQ(count, 0);
  for (const std::int64_t count : ranks.run(large, text, 1)) EXPECT_EQ(count, 0);
  EXPECT_EQ(ranks.rank(0).memory().arena_bytes, large_arena);
}

TEST(Executor, ForgetsTheSizesThatWereUsedLongestAgo) {
  ExecutorOptions options;
  options.max_programs = 2;
  Ranks ranks(toy::make_plan("cp=2"), options);
  const Tensor text = numbers({1, 4}, 1);
  const auto allocates = [&](std::int64_t tokens) {
    return ranks.run(numbers({1, tokens, 5, 2}, 1), text, 1)[0] > 0;
  };
  EXPECT_TRUE(allocates(4));
  EXPECT_TRUE(allocates(5));
  EXPECT_FALSE(allocates(4));
  EXPECT_TRUE(allocates(6));  // 5 goes
  EXPECT_FALSE(allocates(4));
  EXPECT_TRUE(allocates(5));
}

TEST(Executor, RefusesAPlanWhoseInputsComeFromNowhere) {
  Plan plan = toy::make_plan("cp=1");
  plan.prologue = nullptr;
  cpu::CpuBackend backend(toy::kernels());
  RankDeviceOptions device;
  const auto executor = Executor::create(plan, *backend.create_rank(device), {});
  EXPECT_EQ(
      executor.status().message(),
      "plan: input 'context' of graph 'main' is neither an input of the model nor a result of "
      "the prologue");
}

}  // namespace
}  // namespace tutti
