#include "grid.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace tutti::cuda_emulator {
namespace {

constexpr std::size_t kSharedBytes = std::size_t{228} << 10;
constexpr std::size_t kGuardBytes = 4096;
// All bits set: NaN in every floating type, -1 in integers.
constexpr int kSpoil = 0xff;
constexpr unsigned char kGuard = 0xa5;
constexpr int kWarp = 32;

alignas(1024) unsigned char dynamic_shared[kSharedBytes + kGuardBytes];

GridRunner* current = nullptr;  // there is one thread that runs kernels

}  // namespace

GridRunner::GridRunner() : random_(1) {
  services_.place = &place_;
  services_.dynamic_shared = dynamic_shared;
  services_.sync_threads = [] { current->sync_threads(); };
  services_.exchange = [](unsigned mask, const char* kind, const LanePacket& mine,
                          void (*combine)(LanePacket*)) {
    return current->exchange(mask, kind, mine, combine);
  };
  services_.took_part = [] {
    return current->warps_[static_cast<std::size_t>(current->running_ / kWarp)].took_part;
  };
  services_.fail = [](const char* what) { current->fail(what); };
}

void GridRunner::fail(const std::string& what) {
  if (!failure_.empty()) return;
  const Dim3& b = place_.block;
  const Dim3& t = place_.thread;
  failure_ = what + " (block " + std::to_string(b.x) + "," + std::to_string(b.y) + ", thread " +
             std::to_string(t.x) + "," + std::to_string(t.y) + ")";
}

void GridRunner::place_thread(int i) {
  const auto at = static_cast<unsigned>(i);
  place_.thread = {at % place_.block_dim.x, at / place_.block_dim.x % place_.block_dim.y,
                   at / place_.block_dim.x / place_.block_dim.y};
}

void GridRunner::spoil_shared(const KernelFacts& facts, const GridShape& shape) {
  std::memset(facts.shared_begin, kSpoil,
              static_cast<std::size_t>(facts.shared_end - facts.shared_begin));
  std::memset(dynamic_shared, kSpoil, shape.shared_bytes);
  std::memset(dynamic_shared + shape.shared_bytes, kGuard, kGuardBytes);
}

void GridRunner::check_shared(const GridShape& shape) {
  const unsigned char* guard = dynamic_shared + shape.shared_bytes;
  if (std::any_of(guard, guard + kGuardBytes, [](unsigned char c) { return c != kGuard; })) {
    fail("writes behind its " + std::to_string(shape.shared_bytes) + " bytes of shared memory");
  }
}

std::string GridRunner::run(const KernelFacts& facts, const GridShape& shape,
                            const std::function<void()>& run) {
  current = this;
  failure_.clear();
  place_.block_dim = shape.threads;
  place_.grid_dim = shape.blocks;
  count_ = static_cast<int>(shape.threads.x * shape.threads.y * shape.threads.z);
  const std::size_t blocks = std::size_t{shape.blocks.x} * shape.blocks.y * shape.blocks.z;
  const bool is_backwards = (random_() & 1U) != 0;
  for (std::size_t i = 0; i < blocks && failure_.empty(); ++i) {
    const std::size_t at = is_backwards ? blocks - 1 - i : i;
    place_.block = {static_cast<unsigned>(at % shape.blocks.x),
                    static_cast<unsigned>(at / shape.blocks.x % shape.blocks.y),
                    static_cast<unsigned>(at / shape.blocks.x / shape.blocks.y)};
    if (!facts.is_collective) {
      run_alone(run);
      continue;
    }
    spoil_shared(facts, shape);
    run_together(run);
    check_shared(shape);
  }
  return failure_;
}

void GridRunner::run_alone(const std::function<void()>& run) {
  const bool is_backwards = (random_() & 1U) != 0;
  for (int i = 0; i < count_; ++i) {
    place_thread(is_backwards ? count_ - 1 - i : i);
    run();
  }
}

void GridRunner::run_together(const std::function<void()>& run) {
  live_ = count_;
  at_barrier_ = 0;
  states_.assign(static_cast<std::size_t>(count_), State::kReady);
  warps_.assign(static_cast<std::size_t>((count_ + kWarp - 1) / kWarp), {});
  for (int i = 0; i < count_; ++i) {
    Warp& warp = warps_[static_cast<std::size_t>(i / kWarp)];
    ++warp.live;
    warp.live_mask |= 1U << (i % kWarp);
  }
  fibers_.start(count_, [&run](int) { run(); });
  std::vector<int> order(warps_.size());
  std::iota(order.begin(), order.end(), 0);
  while (live_ > 0 && failure_.empty()) {
    std::shuffle(order.begin(), order.end(), random_);
    bool has_run = false;
    for (const int warp : order) {
      const int first = warp * kWarp;
      const int last = std::min(first + kWarp, count_);
      const bool is_backwards = (random_() & 1U) != 0;
      for (int k = first; k < last && failure_.empty(); ++k) {
        const int i = is_backwards ? first + last - 1 - k : k;
        if (states_[static_cast<std::size_t>(i)] != State::kReady) continue;
        has_run = true;
        running_ = i;
        place_thread(i);
        if (fibers_.resume(i)) end_thread(i);
      }
    }
    if (!has_run && live_ > 0) fail("threads wait for others that never come to the same place");
  }
}

void GridRunner::end_thread(int i) {
  states_[static_cast<std::size_t>(i)] = State::kEnded;
  --live_;
  Warp& warp = warps_[static_cast<std::size_t>(i / kWarp)];
  --warp.live;
  warp.live_mask &= ~(1U << (i % kWarp));
  release_barrier();
  if (warp.arrived > 0) release_warp(i / kWarp);
}

void GridRunner::release_barrier() {
  if (live_ == 0 || at_barrier_ < live_) return;
  at_barrier_ = 0;
  for (State& state : states_) {
    if (state == State::kAtBarrier) state = State::kReady;
  }
}

void GridRunner::sync_threads() {
  const int mine = running_;
  states_[static_cast<std::size_t>(mine)] = State::kAtBarrier;
  ++at_barrier_;
  release_barrier();
  if (states_[static_cast<std::size_t>(mine)] == State::kAtBarrier) fibers_.leave();
}

void GridRunner::release_warp(int number) {
  Warp& warp = warps_[static_cast<std::size_t>(number)];
  if (warp.arrived < warp.live) return;
  if (warp.combine != nullptr) warp.combine(warp.packets[warp.step % 2]);
  warp.arrived = 0;
  warp.took_part = warp.live_mask;
  warp.kind = nullptr;
  ++warp.step;
  const int first = number * kWarp;
  for (int i = first; i < std::min(first + kWarp, count_); ++i) {
    State& state = states_[static_cast<std::size_t>(i)];
    if (state == State::kInWarp) state = State::kReady;
  }
}

const LanePacket* GridRunner::exchange(unsigned mask, const char* kind, const LanePacket& mine,
                                       void (*combine)(LanePacket*)) {
  const int me = running_;
  Warp& warp = warps_[static_cast<std::size_t>(me / kWarp)];
  if ((warp.live_mask & ~mask) != 0) fail(std::string(kind) + ": a mask of a part of the warp");
  if (warp.kind != nullptr && std::strcmp(warp.kind, kind) != 0) {
    fail(std::string("lanes of a warp meet in ") + warp.kind + " and " + kind);
  }
  warp.kind = kind;
  warp.combine = combine;
  LanePacket* packets = warp.packets[warp.step % 2];
  packets[me % kWarp] = mine;
  ++warp.arrived;
  states_[static_cast<std::size_t>(me)] = State::kInWarp;
  release_warp(me / kWarp);
  if (states_[static_cast<std::size_t>(me)] == State::kInWarp) fibers_.leave();
  return packets;
}

}  // namespace tutti::cuda_emulator
