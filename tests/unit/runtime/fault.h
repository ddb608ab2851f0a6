// Failures on demand, and backends that can be held up.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "backends/cpu/backend.h"
#include "runtime/hooks.h"
#include "support/host_rank.h"
#include "toy.h"

namespace tutti::toy {

// Holds threads up until it is opened.
class Gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      is_open_ = true;
    }
    changed_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
    --waiting_;
  }
  void wait_for_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int waiting_ = 0;
};

// Calls `action` before the nodes of one operator on one rank, while it is armed.
class Fault final : public RankHooks {
 public:
  Fault(int rank, std::string op, std::function<Status()> action)
      : rank_(rank), op_(std::move(op)), action_(std::move(action)) {}

  Status before_node(int rank, const Node& node) override {
    if (rank != rank_ || node.type() != op_ || !is_armed.load()) return {};
    is_armed.store(false);  // once
    return action_();
  }

  std::atomic<bool> is_armed{true};

 private:
  const int rank_;
  const std::string op_;
  const std::function<Status()> action_;
};

// A CPU rank that asks before it takes memory.
class RationedRank final : public test::HostRank {
 public:
  using Ask = std::function<Status(int rank, std::size_t bytes)>;
  RationedRank(std::unique_ptr<RankDevice> device, int rank, const Ask& ask)
      : HostRank(std::move(device)), rank_(rank), ask_(ask) {}

  bool is_host_memory() const override { return true; }
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    if (ask_) TUTTI_RETURN_IF_ERROR(ask_(rank_, bytes));
    return HostRank::allocate(bytes);
  }

 private:
  const int rank_;
  const Ask& ask_;
};

// The CPU backend with toy kernels; making ranks, and their memory, can be held up or refused.
class ToyBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  int device_count() const override { return 8; }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override {
    ++ranks_made;
    if (before_rank) TUTTI_RETURN_IF_ERROR(before_rank());
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RankDevice> rank, cpu_.create_rank(options));
    return std::unique_ptr<RankDevice>(
        std::make_unique<RationedRank>(std::move(rank), options.rank, before_memory));
  }

  std::function<Status()> before_rank;  // set while no rank is being made
  RationedRank::Ask before_memory;      // set while no request runs
  std::atomic<int> ranks_made{0};

 private:
  cpu::CpuBackend cpu_{kernels()};
};

}  // namespace tutti::toy
