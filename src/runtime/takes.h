// What a program did at certain addresses, recorded: which run goes step by step, which is recorded
// and which repeats a recording.
#pragma once

#include <vector>

#include "runtime/backend.h"

namespace tutti {

// Empty until the program has run at its addresses once.
struct Take {
  std::vector<const void*> addresses;
  std::vector<std::unique_ptr<Recording>> recordings;  // by stretch; null: run step by step
  std::int64_t number = 0;                             // the same on ranks that recorded together
  std::uint64_t last_use = 0;
};

enum class Pass { kSteps, kRecord, kReplay };

// Used by one thread at a time.
class Takes {
 public:
  // The take for these addresses; `has_run` is false where it is new.
  Take* find(const std::vector<const void*>& addresses, bool* has_run);

  // The first run goes step by step, the second is recorded, later ones repeat. With a group the
  // call is collective, and all ranks get the same answer: the latest that all of them can do. In
  // kRecord the take has its new number.
  Result<Pass> choose(Take* take, bool has_run, Communicator* group);

  void clear() { takes_.clear(); }

 private:
  struct Standing {
    std::int64_t take = 0;         // kNew, kHasRun or the number of what is recorded
    std::int64_t last_number = 0;  // given so far
  };
  std::vector<Take> takes_;
  std::vector<Standing> standings_;  // scratch
  std::uint64_t uses_ = 0;
  std::int64_t last_number_ = 0;
};

}  // namespace tutti
