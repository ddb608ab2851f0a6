#include "server/shared_memory/system_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <string_view>

namespace tutti::server {
namespace {

// "/name": one component, as shm_open(3) has it; without the slash it means the same.
bool is_key(std::string_view key) {
  if (key.starts_with('/')) key.remove_prefix(1);
  constexpr std::size_t kLongest = 255;
  return !key.empty() && key.size() < kLongest && key != "." && key != ".." &&
         key.find('/') == std::string_view::npos && key.find('\0') == std::string_view::npos;
}

// Bytes of the file; 0 where it is none of fixed size.
std::uint64_t file_size(int file) {
  struct stat info {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) return 0;
  return static_cast<std::uint64_t>(info.st_size);
}

}  // namespace

Result<std::shared_ptr<const SystemRegion>> SystemRegion::open(const std::string& key,
                                                               std::uint64_t offset,
                                                               std::uint64_t byte_size) {
  if (!is_key(key)) {
    return invalid_argument("the key is none: expected '/' and a name without further '/'");
  }
  if (byte_size == 0) return invalid_argument("byte_size is 0, expected at least 1");
  const std::shared_ptr<SystemRegion> region(new SystemRegion());
  region->file_ = shm_open(key.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (region->file_ < 0) {
    return not_found("there is no shared memory under the key that the server may open");
  }
  const std::uint64_t available = file_size(region->file_);
  if (offset > available || byte_size > available - offset) {
    return invalid_argument("offset ", offset, " and byte_size ", byte_size,
                            " end past the shared memory behind the key");
  }
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  region->mapped_bytes_ = byte_size + (offset - begin);
  void* mapping = mmap(nullptr, region->mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED,
                       region->file_, static_cast<off_t>(begin));
  if (mapping == MAP_FAILED) {
    return Status(StatusCode::kResourceExhausted,
                  str_cat("no room to map ", byte_size, " bytes of shared memory"));
  }
  region->mapping_ = mapping;
  region->data_ = static_cast<std::byte*>(mapping) + (offset - begin);
  region->key_ = key;
  region->offset_ = offset;
  region->byte_size_ = byte_size;
  return std::shared_ptr<const SystemRegion>(region);
}

SystemRegion::~SystemRegion() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
  if (file_ >= 0) ::close(file_);
}

bool SystemRegion::is_whole() const { return file_size(file_) >= offset_ + byte_size_; }

}  // namespace tutti::server
