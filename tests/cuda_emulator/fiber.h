// Threads of a block as fibers of one thread: cheap to switch, in an order that is known.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace tutti::cuda_emulator {

// Up to `kMost` fibers that all run one function. Used by one thread.
class Fibers {
 public:
  static constexpr int kMost = 1024;

  // f(i) as fiber i of [0, count); none has begun yet. Those of an earlier start are forgotten.
  void start(int count, std::function<void(int)> f);
  // Goes on with fiber i until it calls leave() or ends; true: it has ended.
  bool resume(int i);
  // From within a fiber: back to where it was resumed.
  void leave();

 private:
  struct Context;
  struct Destroy {
    void operator()(Context* context) const;
  };
  static void main();

  std::unique_ptr<Context, Destroy> outside_;
  std::vector<std::unique_ptr<Context, Destroy>> contexts_;
  std::function<void(int)> f_;
  int running_ = -1;
  bool has_ended_ = false;
};

}  // namespace tutti::cuda_emulator
