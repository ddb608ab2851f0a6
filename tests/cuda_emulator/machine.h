// The emulated machine: streams of its devices, events, and the one thread that does their work.
//
// Work waits until somebody asks for its end, and then goes on stream by stream in an order that
// changes: what no event orders happens in any order, as on a card.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "grid.h"
#include "memory.h"

namespace tutti::cuda_emulator {

struct Capture;

// The end of some work, when it comes.
struct Marker {
  bool is_done = false;
  double seconds = 0;  // on the clock of its stream
};

// One piece of work of a stream.
struct Step {
  std::string name;
  std::function<std::string()> work;  // what went wrong, or ""; null: nothing to do
  double seconds = 0;                 // that it takes on the stream's clock
  std::shared_ptr<Marker> after;      // null: nothing but the step before
  std::shared_ptr<Marker> marks;      // done with it
};

struct Stream {
  int device = 0;
  std::deque<Step> steps;
  bool is_busy = false;
  double seconds = 0;
  // While a capture goes on, what the next step comes after.
  std::shared_ptr<Capture> capture;
  std::set<int> frontier;
};

struct Event {
  int device = 0;
  bool has_time = false;
  std::shared_ptr<Marker> marker;  // null: never recorded
  // Recorded in a capture.
  std::shared_ptr<Capture> capture;
  std::set<int> frontier;
};

class Machine {
 public:
  static Machine& get();

  int devices() const { return devices_; }
  Memory& memory() { return memory_; }
  GridRunner& grid_runner() { return grid_runner_; }  // of the thread that does the work

  // Everything below is done under this.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // Null and what is no stream of the caller: the device's own stream.
  Stream* stream(cudaStream_t handle, int device);  // null: no such stream
  Event* event(cudaEvent_t handle);                 // null: no such event
  cudaStream_t add_stream(int device);
  bool remove_stream(cudaStream_t handle);
  cudaEvent_t add_event(int device, bool has_time);
  bool remove_event(cudaEvent_t handle);

  // Not of a stream that is captured.
  void add(Stream& stream, Step step);
  // From now on work is done until there is none.
  void demand();
  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_over);
  bool is_idle(const Stream& stream) const { return stream.steps.empty() && !stream.is_busy; }
  bool is_device_idle(int device) const;

  // What stays wrong once something has gone wrong on a device.
  cudaError_t failure() const { return failure_; }
  void fail(const std::string& what);

  // Of the thread that does the work: a step within a step (a graph's).
  std::string run(const Step& step);
  std::mt19937& random() { return random_; }
  // What runs now; for whoever reports a fault of the process.
  const std::string& running() const { return running_; }

 private:
  Machine();
  void work();
  Stream* choose();

  const int devices_;
  Memory memory_;
  GridRunner grid_runner_;
  std::mt19937 random_;
  std::string running_;
  std::mutex mutex_;
  std::condition_variable demanded_;
  std::condition_variable changed_;
  bool is_demanded_ = false;
  cudaError_t failure_ = cudaSuccess;
  std::vector<std::unique_ptr<Stream>> own_;  // by device
  std::set<Stream*> streams_;
  std::set<Stream*> leaving_;  // destroyed with work in them
  std::set<Event*> events_;
};

}  // namespace tutti::cuda_emulator
