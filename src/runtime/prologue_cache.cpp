#include "runtime/prologue_cache.h"

#include <algorithm>

#include "runtime/storage.h"

namespace tutti {

PrologueKeys::PrologueKeys(const Plan& plan) : has_prologue_(plan.prologue != nullptr) {
  if (!has_prologue_) return;
  symbols_ = size_symbols(*plan.prologue);
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    for (const Value* input : plan.prologue->inputs()) {
      if (input->name() == plan.inputs[i].name) inputs_.push_back(i);
    }
  }
}

Hash128 PrologueKeys::key_of(std::span<const Tensor> inputs, const ShapeBinding& shapes) const {
  Hasher hasher;
  for (const std::size_t i : inputs_) {
    const Tensor& input = inputs[i];
    hasher.update(static_cast<std::uint64_t>(input.dims().size()));
    for (const std::int64_t dim : input.dims()) hasher.update(static_cast<std::uint64_t>(dim));
    hasher.update({input.data(), input.byte_size()});
  }
  for (const std::string& symbol : symbols_) {
    const auto it = shapes.symbols.find(symbol);
    if (it != shapes.symbols.end()) hasher.update(static_cast<std::uint64_t>(it->second));
  }
  return hasher.digest();
}

PrologueCache::PrologueCache(int capacity)
    : slots_(static_cast<std::size_t>(std::max(capacity, 1))) {}

PrologueCache::Place PrologueCache::find_or_replace(const Hash128& key) {
  ++uses_;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].is_filled || !(slots_[i].key == key)) continue;
    slots_[i].last_use = uses_;
    hits_.fetch_add(1, std::memory_order_relaxed);
    return {static_cast<int>(i), true};
  }
  misses_.fetch_add(1, std::memory_order_relaxed);
  // Empty slots first, then the one that was used longest ago.
  const auto oldest =
      std::min_element(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) {
        if (a.is_filled != b.is_filled) return b.is_filled;
        return a.last_use < b.last_use;
      });
  if (oldest->is_filled) entries_.fetch_sub(1, std::memory_order_relaxed);
  *oldest = {key, false, uses_};
  return {static_cast<int>(oldest - slots_.begin()), false};
}

void PrologueCache::commit(int slot) {
  slots_[static_cast<std::size_t>(slot)].is_filled = true;
  entries_.fetch_add(1, std::memory_order_relaxed);
}

void PrologueCache::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot());
  entries_.store(0, std::memory_order_relaxed);
}

PrologueStats PrologueCache::stats() const {
  return {hits_.load(std::memory_order_relaxed), misses_.load(std::memory_order_relaxed),
          entries_.load(std::memory_order_relaxed), static_cast<int>(slots_.size())};
}

}  // namespace tutti
