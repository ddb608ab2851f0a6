// Which content of the invariant inputs has its prologue results in which slot. Kept once for all
// ranks, so that they agree; the results themselves lie with the ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "runtime/shape_binding.h"

namespace tutti {

// The identity of a prologue's results: content and sizes of the inputs that it reads, and the
// sizes of the request that its shapes use.
class PrologueKeys {
 public:
  explicit PrologueKeys(const Plan& plan);
  bool has_prologue() const { return has_prologue_; }
  // That the prologue reads, by index into Plan::inputs.
  const std::vector<std::size_t>& inputs() const { return inputs_; }
  // `inputs` by Plan::inputs.
  Hash128 key_of(std::span<const Tensor> inputs, const ShapeBinding& shapes) const;

 private:
  bool has_prologue_ = false;
  std::vector<std::size_t> inputs_;   // that the prologue reads, indexes into Plan::inputs
  std::vector<std::string> symbols_;  // that its shapes use
};

struct PrologueStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  int entries = 0;
  int capacity = 0;
};

// One thread at a time; stats() from any.
class PrologueCache {
 public:
  explicit PrologueCache(int capacity);

  struct Place {
    int slot = 0;
    bool is_filled = false;  // false: the caller runs the prologue, then calls commit()
  };
  // The slot of `key`, or the one that was used longest ago. Its old content is forgotten at once.
  Place find_or_replace(const Hash128& key);
  // The results for the key that got `slot` last are there.
  void commit(int slot);
  void clear();

  PrologueStats stats() const;

 private:
  struct Slot {
    Hash128 key;
    bool is_filled = false;
    std::uint64_t last_use = 0;
  };
  std::vector<Slot> slots_;
  std::uint64_t uses_ = 0;
  std::atomic<std::int64_t> hits_{0};
  std::atomic<std::int64_t> misses_{0};
  std::atomic<int> entries_{0};
};

}  // namespace tutti
