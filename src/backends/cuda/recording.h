// Recordings as CUDA graphs: what one rank did, or what all ranks of a group did together.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "backends/cuda/memory.h"
#include "comm/communicator.h"

namespace tutti::cuda {

// One capture in which the streams of all ranks take part, on one card or several. Rank 0's stream
// begins and ends it; the events by which exchanges are ordered become edges of the graph.
//
// Graphs that are being made are not for several threads at a time. So ranks take turns: a rank has
// the turn while it calls CUDA, and passes it on while it waits for other ranks.
class SharedCapture {
 public:
  explicit SharedCapture(cudaStream_t origin) : origin_(origin) {}
  ~SharedCapture();
  SharedCapture(const SharedCapture&) = delete;
  SharedCapture& operator=(const SharedCapture&) = delete;

  std::mutex turn;
  // With the turn. All but begin() fail once somebody has given the capture up.
  Status begin();
  Status check() const;
  Status end();
  void give_up();

  // After end().
  cudaGraphExec_t executable() const { return executable_; }

 private:
  enum class State { kNew, kOpen, kEnded, kGivenUp };
  const cudaStream_t origin_;
  State state_ = State::kNew;
  cudaGraphExec_t executable_ = nullptr;
};

// The captures under way, so that ranks find the one that rank 0 began. Thread-safe.
class SharedCaptures {
 public:
  std::uint64_t add(std::shared_ptr<SharedCapture> capture);
  std::shared_ptr<SharedCapture> find(std::uint64_t number);  // null: gone
  void remove(std::uint64_t number);

 private:
  std::mutex mutex_;
  std::uint64_t last_ = 0;                                        // under mutex_
  std::map<std::uint64_t, std::shared_ptr<SharedCapture>> open_;  // under mutex_
};

// A rank's part in captures. begin(), end() and the recordings' replay() are collective over the
// group; drop() is not. Used by the rank's thread.
class Recorder {
 public:
  // `group`: null for one rank. What the arguments point to outlives the recorder.
  Status set_up(int device, cudaStream_t stream, Communicator* group, SharedCaptures* captures);

  Status begin();
  Result<std::unique_ptr<Recording>> end();
  void drop();

  // Waits for other ranks: f() -> Status without the turn, where there is a capture going on.
  template <class F>
  Status wait(F&& f) {
    if (capture_ == nullptr) return f();
    turn_.unlock();
    const Status status = f();
    turn_.lock();
    return status.ok() ? capture_->check() : status;
  }

 private:
  Status begin_shared();
  Status join_shared();
  Status tell(std::uint64_t mine);  // all_[rank] of every rank

  int device_ = 0;
  cudaStream_t stream_ = nullptr;
  Communicator* group_ = nullptr;
  SharedCaptures* captures_ = nullptr;
  std::unique_ptr<Event> event_;
  std::shared_ptr<SharedCapture> capture_;  // while it goes on
  std::uint64_t number_ = 0;                // of the one that this rank began
  std::unique_lock<std::mutex> turn_;
  std::vector<std::uint64_t> all_;

  friend class SharedRecording;
};

}  // namespace tutti::cuda
