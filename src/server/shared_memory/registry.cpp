#include "server/shared_memory/registry.h"

#include <limits>
#include <utility>

#include "server/names.h"

namespace tutti::server {
namespace {

Status unknown_region(const std::string& name) {
  return not_found("Unable to find shared memory region: '", printable(name), "'");
}

std::string label_of(const std::string& name) {
  return str_cat("shared memory region '", printable(name), "'");
}

Status taken(const std::string& name) {
  return already_exists(label_of(name), " already in manager");
}

Status check_inside(const SharedMemoryRef& place, std::uint64_t size) {
  if (place.offset <= size && place.byte_size <= size - place.offset) return Status();
  return invalid_argument(label_of(place.region), " has ", size, " bytes, but offset ",
                          place.offset, " and byte_size ", place.byte_size, " end past it");
}

// Takes the named region out, or all of them.
template <class Region>
std::map<std::string, Region> extract(const std::string& name,
                                      std::map<std::string, Region>* regions) {
  if (name.empty()) return std::exchange(*regions, {});
  std::map<std::string, Region> gone;
  if (auto node = regions->extract(name)) gone.insert(std::move(node));
  return gone;
}

}  // namespace

Status SharedMemoryRegistry::check_allowed() const {
  if (is_allowed_) return Status();
  return unimplemented(
      "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to "
      "enable.");
}

bool SharedMemoryRegistry::is_taken_locked(const std::string& name) const {
  return system_.contains(name) || cuda_.contains(name);
}

Status SharedMemoryRegistry::check_new(const std::string& name) const {
  TUTTI_RETURN_IF_ERROR(check_allowed());
  if (name.empty()) return invalid_argument("the shared memory region's name is empty");
  const std::lock_guard lock(mutex_);
  return is_taken_locked(name) ? taken(name) : Status();
}

Status SharedMemoryRegistry::register_system(const std::string& name, const std::string& key,
                                             std::uint64_t offset, std::uint64_t byte_size) {
  TUTTI_RETURN_IF_ERROR(check_new(name));
  auto region = SystemRegion::open(key, offset, byte_size);
  if (!region.ok()) return region.status().with_context(label_of(name));
  const std::lock_guard lock(mutex_);
  if (is_taken_locked(name)) return taken(name);
  system_.emplace(name, *std::move(region));
  return Status();
}

Status SharedMemoryRegistry::unregister_system(const std::string& name) {
  TUTTI_RETURN_IF_ERROR(check_allowed());
  std::map<std::string, std::shared_ptr<const SystemRegion>> gone;  // unmapped after the lock
  const std::lock_guard lock(mutex_);
  gone = extract(name, &system_);
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

Status SharedMemoryRegistry::register_cuda(const std::string& name,
                                           std::span<const std::byte> handle, std::int64_t device,
                                           std::uint64_t byte_size) {
  TUTTI_RETURN_IF_ERROR(check_new(name));
  if (gpu_ == nullptr) {
    return invalid_argument("failed to register CUDA ", label_of(name),
                            ": GPUs not supported: no loaded backend has CUDA memory");
  }
  if (byte_size == 0) {
    return invalid_argument(label_of(name), ": byte_size is 0, expected at least 1");
  }
  if (device < 0 || device > std::numeric_limits<int>::max()) {
    return invalid_argument(label_of(name), ": device_id ", device, " does not exist");
  }
  CudaRegion region{nullptr, static_cast<int>(device), byte_size};
  auto memory = gpu_->open_device_memory(region.device, handle, byte_size);
  if (!memory.ok()) return memory.status().with_context(label_of(name));
  region.memory = *std::move(memory);
  const std::lock_guard lock(mutex_);
  if (is_taken_locked(name)) return taken(name);
  cuda_.emplace(name, std::move(region));
  return Status();
}

Status SharedMemoryRegistry::unregister_cuda(const std::string& name) {
  TUTTI_RETURN_IF_ERROR(check_allowed());
  std::map<std::string, CudaRegion> gone;  // closed after the lock
  const std::lock_guard lock(mutex_);
  gone = extract(name, &cuda_);
  return Status();
}

Result<std::vector<CudaRegionEntry>> SharedMemoryRegistry::cuda_status(
    const std::string& name) const {
  std::vector<CudaRegionEntry> entries;
  const std::lock_guard lock(mutex_);
  if (!name.empty() && !cuda_.contains(name)) return unknown_region(name);
  for (const auto& [region_name, region] : cuda_) {
    if (!name.empty() && region_name != name) continue;
    entries.push_back({region_name, region.device, region.byte_size});
  }
  return entries;
}

Result<SharedBytes> SharedMemoryRegistry::find(const SharedMemoryRef& place) const {
  std::shared_ptr<const SystemRegion> region;
  {
    const std::lock_guard lock(mutex_);
    if (const auto cuda = cuda_.find(place.region); cuda != cuda_.end()) {
      const CudaRegion& found = cuda->second;
      TUTTI_RETURN_IF_ERROR(check_inside(place, found.byte_size));
      return SharedBytes{found.memory.get() + place.offset,
                         place.byte_size,
                         found.memory,
                         {MemoryPlace::Kind::kDevice, found.device}};
    }
    const auto found = system_.find(place.region);
    if (found == system_.end()) return unknown_region(place.region);
    region = found->second;
  }
  TUTTI_RETURN_IF_ERROR(check_inside(place, region->byte_size()));
  if (!region->is_whole()) {
    return invalid_argument(label_of(place.region),
                            " is smaller by now than when it was registered");
  }
  return SharedBytes{region->data() + place.offset, place.byte_size, region};
}

}  // namespace tutti::server
