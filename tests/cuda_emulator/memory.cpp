#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tutti::cuda_emulator {
namespace {

// Of a device. Reserved, not touched.
constexpr std::size_t kCapacity = std::size_t{4} << 30;
constexpr std::size_t kAlignment = 256;  // of cudaMalloc
// New memory is NaN, as far as it does not cost much.
constexpr std::size_t kMostSpoiled = std::size_t{4} << 20;
constexpr unsigned char kGuard = 0xa5;
constexpr unsigned char kSpoil = 0xff;

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// The room before an allocation, and between its last byte and the page that nobody may touch.
struct Room {
  unsigned char* begin;
  std::size_t bytes;
};
Room before(const Allocation& a) {
  auto* first = static_cast<unsigned char*>(a.mapping);
  const std::size_t bytes = std::min<std::size_t>(
      static_cast<std::size_t>(a.begin - reinterpret_cast<std::uintptr_t>(first)), kAlignment);
  return {reinterpret_cast<unsigned char*>(a.begin) - bytes, bytes};
}
Room after(const Allocation& a) {
  auto* end = static_cast<unsigned char*>(a.mapping) + a.mapping_bytes - page_bytes();
  auto* first = reinterpret_cast<unsigned char*>(a.end());
  return {first, static_cast<std::size_t>(end - first)};
}

}  // namespace

Memory::Memory(int devices) : used_(static_cast<std::size_t>(devices)) {
#if defined(PKEY_DISABLE_ACCESS)
  key_ = pkey_alloc(0, PKEY_DISABLE_ACCESS);
#endif
}

void Memory::open_devices() const {
#if defined(PKEY_DISABLE_ACCESS)
  if (key_ >= 0) pkey_set(key_, 0);
#endif
}

std::size_t Memory::capacity() const { return kCapacity; }

std::size_t Memory::used(int device) const {
  const std::lock_guard lock(mutex_);
  return used_[static_cast<std::size_t>(device)];
}

void* Memory::allocate(std::size_t bytes, int device, bool is_pinned) {
  const std::lock_guard lock(mutex_);
  std::size_t& used = used_[static_cast<std::size_t>(device)];
  const std::size_t whole = round_up(std::max<std::size_t>(bytes, 1), kAlignment);
  if (!is_pinned && (whole > kCapacity || used > kCapacity - whole)) return nullptr;
  Allocation made;
  made.mapping_bytes = round_up(whole, page_bytes()) + page_bytes();
  made.mapping = mmap(nullptr, made.mapping_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made.mapping == MAP_FAILED) return nullptr;
  made.begin =
      reinterpret_cast<std::uintptr_t>(made.mapping) + made.mapping_bytes - page_bytes() - whole;
  made.size = bytes;
  made.device = device;
  made.is_pinned = is_pinned;
  std::memset(reinterpret_cast<void*>(made.begin), kSpoil, std::min(bytes, kMostSpoiled));
  for (const Room& room : {before(made), after(made)}) {
    std::memset(room.begin, kGuard, room.bytes);
  }
  const std::size_t open = made.mapping_bytes - page_bytes();
  mprotect(static_cast<char*>(made.mapping) + open, page_bytes(), PROT_NONE);
#if defined(PKEY_DISABLE_ACCESS)
  if (key_ >= 0 && !is_pinned) {
    pkey_mprotect(made.mapping, open, PROT_READ | PROT_WRITE, key_);
  }
#endif
  if (!is_pinned) used += whole;
  live_.emplace(made.begin, made);
  return reinterpret_cast<void*>(made.begin);
}

bool Memory::release(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == live_.end()) return false;
  const Allocation& gone = found->second;
  if (!gone.is_pinned) {
    used_[static_cast<std::size_t>(gone.device)] -=
        round_up(std::max<std::size_t>(gone.size, 1), kAlignment);
  }
  // The addresses stay taken: whoever still uses them faults.
  (void)mmap(gone.mapping, gone.mapping_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  live_.erase(found);
  return true;
}

std::optional<Allocation> Memory::find(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto next = live_.upper_bound(at);
  if (next == live_.begin()) return std::nullopt;
  const Allocation& found = std::prev(next)->second;
  return at <= found.end() ? std::optional(found) : std::nullopt;
}

std::string Memory::damage(const Allocation& allocation) {
  const auto is_whole = [](const Room& room) {
    return std::all_of(room.begin, room.begin + room.bytes,
                       [](unsigned char c) { return c == kGuard; });
  };
  const bool is_before = !is_whole(before(allocation));
  if (!is_before && is_whole(after(allocation))) return "";
  return std::string("something was written ") + (is_before ? "in front of" : "behind") +
         " an allocation of " + std::to_string(allocation.size) + " bytes";
}

}  // namespace tutti::cuda_emulator
