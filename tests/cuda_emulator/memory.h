// Memory of the emulated devices, and pinned memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tutti::cuda_emulator {

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t size = 0;
  int device = 0;
  bool is_pinned = false;  // of the host
  void* mapping = nullptr;
  std::size_t mapping_bytes = 0;

  std::uintptr_t end() const { return begin + size; }
};

// Every allocation ends at a page that nobody may touch, what little room is left around it is
// watched, and addresses are not used twice. Where the processor has protection keys, only the
// thread that runs kernels and copies reaches memory of devices: host code that follows an address
// of a device faults as on a machine with one. Thread-safe.
class Memory {
 public:
  explicit Memory(int devices);

  // Null: there is no room.
  void* allocate(std::size_t bytes, int device, bool is_pinned);
  // False: nothing begins there.
  bool release(void* address);
  // What the address lies in, or ends.
  std::optional<Allocation> find(const void* address) const;
  // "" unless something was written around the allocation. Of the thread that runs kernels.
  static std::string damage(const Allocation& allocation);

  // For the calling thread.
  void open_devices() const;

  std::size_t capacity() const;
  std::size_t used(int device) const;

 private:
  int key_ = -1;  // protection key
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Allocation> live_;  // under mutex_
  std::vector<std::size_t> used_;              // under mutex_, by device
};

}  // namespace tutti::cuda_emulator
