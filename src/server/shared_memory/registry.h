// Memory that clients share with the server: POSIX regions under names that they register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/infer.h"
#include "server/shared_memory/system_region.h"

namespace tutti::server {

struct SystemRegionEntry {
  std::string name;
  std::string key;
  std::uint64_t offset = 0;
  std::uint64_t byte_size = 0;
};

// Part of a region, alive as long as `owner`, whoever unregisters it meanwhile.
struct SharedBytes {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::shared_ptr<const void> owner;
};

// Thread safe.
class SharedMemoryRegistry {
 public:
  // Not allowed: nothing can be registered.
  explicit SharedMemoryRegistry(bool is_allowed) : is_allowed_(is_allowed) {}

  // UNIMPLEMENTED while clients may not share memory; ALREADY_EXISTS for a name that is taken;
  // INVALID_ARGUMENT for keys that are none, sizes of 0 and what lies outside the memory behind the
  // key; NOT_FOUND when there is none. No message holds the key: it could tell what else is there.
  Status register_system(const std::string& name, const std::string& key, std::uint64_t offset,
                         std::uint64_t byte_size);
  // "" takes all. An unknown name is no error, as in Triton.
  Status unregister_system(const std::string& name);
  // "" lists all. NOT_FOUND for an unknown name.
  Result<std::vector<SystemRegionEntry>> system_status(const std::string& name) const;

  // The bytes that a request names. NOT_FOUND: no such region; INVALID_ARGUMENT: not inside it, or
  // its client has made the memory behind it smaller.
  Result<SharedBytes> find(const SharedMemoryRef& place) const;

 private:
  Status check_allowed() const;

  const bool is_allowed_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const SystemRegion>> system_;  // under mutex_
};

}  // namespace tutti::server
