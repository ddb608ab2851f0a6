// Memory that clients share with the server: POSIX regions and memory of GPUs, under names that
// they register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/backend.h"
#include "runtime/memory_place.h"
#include "server/infer.h"
#include "server/shared_memory/system_region.h"

namespace tutti::server {

struct SystemRegionEntry {
  std::string name;
  std::string key;
  std::uint64_t offset = 0;
  std::uint64_t byte_size = 0;
};

struct CudaRegionEntry {
  std::string name;
  int device = 0;
  std::uint64_t byte_size = 0;
};

// Part of a region, alive as long as `owner`, whoever unregisters it meanwhile.
struct SharedBytes {
  std::byte* data = nullptr;  // an address in `place`
  std::size_t size = 0;
  std::shared_ptr<const void> owner;
  MemoryPlace place = {};
};

// Thread safe. A name is of one region, whatever its kind.
class SharedMemoryRegistry {
 public:
  // Not allowed: nothing can be registered. `gpu` opens what lies on GPUs and outlives the regions;
  // null: nothing does.
  explicit SharedMemoryRegistry(bool is_allowed, Backend* gpu = nullptr)
      : is_allowed_(is_allowed), gpu_(gpu) {}

  // UNIMPLEMENTED while clients may not share memory; ALREADY_EXISTS for a name that is taken;
  // INVALID_ARGUMENT for keys that are none, sizes of 0 and what lies outside the memory behind the
  // key; NOT_FOUND when there is none. No message holds the key: it could tell what else is there.
  Status register_system(const std::string& name, const std::string& key, std::uint64_t offset,
                         std::uint64_t byte_size);
  // "" takes all. An unknown name is no error, as in Triton.
  Status unregister_system(const std::string& name);
  // "" lists all. NOT_FOUND for an unknown name.
  Result<std::vector<SystemRegionEntry>> system_status(const std::string& name) const;

  // As for system memory; `handle` holds the bytes of a cudaIpcMemHandle_t. INVALID_ARGUMENT also
  // where there is no GPU, for a device that there is not, and for a handle that opens nothing.
  Status register_cuda(const std::string& name, std::span<const std::byte> handle,
                       std::int64_t device, std::uint64_t byte_size);
  Status unregister_cuda(const std::string& name);
  Result<std::vector<CudaRegionEntry>> cuda_status(const std::string& name) const;

  // The bytes that a request names. NOT_FOUND: no such region; INVALID_ARGUMENT: not inside it, or
  // its client has made the memory behind it smaller.
  Result<SharedBytes> find(const SharedMemoryRef& place) const;

 private:
  struct CudaRegion {
    std::shared_ptr<std::byte> memory;
    int device = 0;
    std::uint64_t byte_size = 0;
  };

  Status check_new(const std::string& name) const;
  bool is_taken_locked(const std::string& name) const;
  Status check_allowed() const;

  const bool is_allowed_;
  Backend* const gpu_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const SystemRegion>> system_;  // under mutex_
  std::map<std::string, CudaRegion> cuda_;                             // under mutex_
};

}  // namespace tutti::server
