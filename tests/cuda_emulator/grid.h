// Runs a kernel's blocks, one after the other.
#pragma once

#include <cstddef>
#include <functional>
#include <random>
#include <string>

#include "fiber.h"
#include "kernel_border.h"

namespace tutti::cuda_emulator {

struct GridShape {
  Dim3 blocks;
  Dim3 threads;
  std::size_t shared_bytes = 0;
};

// Blocks, and threads between two points where they wait for each other, run in an order that
// changes: nothing may depend on it. Used by one thread.
class GridRunner {
 public:
  GridRunner();

  // run() is one thread of the kernel. Returns what went wrong, or "".
  std::string run(const KernelFacts& facts, const GridShape& shape,
                  const std::function<void()>& run);
  KernelServices* services() { return &services_; }
  const ThreadPlace& place() const { return place_; }

 private:
  enum class State { kReady, kAtBarrier, kInWarp, kEnded };
  struct Warp {
    int live = 0;
    int arrived = 0;
    unsigned live_mask = 0;
    unsigned took_part = 0;  // in the latest step
    unsigned step = 0;
    const char* kind = nullptr;
    void (*combine)(LanePacket*) = nullptr;
    LanePacket packets[2][32];
  };

  void run_alone(const std::function<void()>& run);
  void run_together(const std::function<void()>& run);
  void place_thread(int i);
  void spoil_shared(const KernelFacts& facts, const GridShape& shape);
  void check_shared(const GridShape& shape);
  void fail(const std::string& what);

  void sync_threads();
  const LanePacket* exchange(unsigned mask, const char* kind, const LanePacket& mine,
                             void (*combine)(LanePacket*));
  void release_barrier();
  void release_warp(int warp);
  void end_thread(int i);

  KernelServices services_{};
  ThreadPlace place_{};
  Fibers fibers_;
  std::mt19937 random_;
  std::string failure_;
  int count_ = 0;  // threads of a block
  int running_ = 0;
  int live_ = 0;
  int at_barrier_ = 0;
  std::vector<State> states_;
  std::vector<Warp> warps_;
};

}  // namespace tutti::cuda_emulator
