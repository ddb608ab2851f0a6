// A POSIX shared memory object, mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace tutti::server {

class SystemRegion {
 public:
  // Maps `byte_size` bytes at `offset` of the object `key` ("/name"), read and write. Errors are
  // those of SharedMemoryRegistry::register_system.
  static Result<std::shared_ptr<const SystemRegion>> open(const std::string& key,
                                                          std::uint64_t offset,
                                                          std::uint64_t byte_size);
  ~SystemRegion();
  SystemRegion(const SystemRegion&) = delete;
  SystemRegion& operator=(const SystemRegion&) = delete;

  const std::string& key() const { return key_; }
  std::uint64_t offset() const { return offset_; }
  std::uint64_t byte_size() const { return byte_size_; }
  std::byte* data() const { return data_; }
  // The object still holds all of it: touching what its owner cut off would end the process.
  bool is_whole() const;

 private:
  SystemRegion() = default;

  std::string key_;
  std::uint64_t offset_ = 0;
  std::uint64_t byte_size_ = 0;
  int file_ = -1;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace tutti::server
