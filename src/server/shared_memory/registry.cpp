#include "server/shared_memory/registry.h"

#include <utility>

#include "server/names.h"

namespace tutti::server {
namespace {

Status unknown_region(const std::string& name) {
  return not_found("Unable to find shared memory region: '", printable(name), "'");
}

}  // namespace

Status SharedMemoryRegistry::check_allowed() const {
  if (is_allowed_) return Status();
  return unimplemented(
      "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to "
      "enable.");
}

Status SharedMemoryRegistry::register_system(const std::string& name, const std::string& key,
                                             std::uint64_t offset, std::uint64_t byte_size) {
  TUTTI_RETURN_IF_ERROR(check_allowed());
  if (name.empty()) return invalid_argument("the shared memory region's name is empty");
  const std::string label = str_cat("shared memory region '", printable(name), "'");
  {
    const std::lock_guard lock(mutex_);
    if (system_.contains(name)) return already_exists(label, " already in manager");
  }
  auto region = SystemRegion::open(key, offset, byte_size);
  if (!region.ok()) return region.status().with_context(label);
  const std::lock_guard lock(mutex_);
  if (!system_.emplace(name, *std::move(region)).second) {
    return already_exists(label, " already in manager");
  }
  return Status();
}

Status SharedMemoryRegistry::unregister_system(const std::string& name) {
  TUTTI_RETURN_IF_ERROR(check_allowed());
  std::map<std::string, std::shared_ptr<const SystemRegion>> gone;  // unmapped after the lock
  const std::lock_guard lock(mutex_);
  if (name.empty()) {
    gone = std::exchange(system_, {});
  } else if (auto node = system_.extract(name)) {
    gone.insert(std::move(node));
  }
  return Status();
}

Result<std::vector<SystemRegionEntry>> SharedMemoryRegistry::system_status(
    const std::string& name) const {
  std::vector<SystemRegionEntry> entries;
  const std::lock_guard lock(mutex_);
  if (!name.empty() && !system_.contains(name)) return unknown_region(name);
  for (const auto& [region_name, region] : system_) {
    if (!name.empty() && region_name != name) continue;
    entries.push_back({region_name, region->key(), region->offset(), region->byte_size()});
  }
  return entries;
}

Result<SharedBytes> SharedMemoryRegistry::find(const SharedMemoryRef& place) const {
  std::shared_ptr<const SystemRegion> region;
  {
    const std::lock_guard lock(mutex_);
    const auto found = system_.find(place.region);
    if (found == system_.end()) return unknown_region(place.region);
    region = found->second;
  }
  const std::uint64_t size = region->byte_size();
  if (place.offset > size || place.byte_size > size - place.offset) {
    return invalid_argument("shared memory region '", printable(place.region), "' has ", size,
                            " bytes, but offset ", place.offset, " and byte_size ", place.byte_size,
                            " end past it");
  }
  if (!region->is_whole()) {
    return invalid_argument("shared memory region '", printable(place.region),
                            "' is smaller by now than when it was registered");
  }
  return SharedBytes{region->data() + place.offset, place.byte_size, region};
}

}  // namespace tutti::server
