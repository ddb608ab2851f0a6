// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace tutti {

class MappedFile {
 public:
  // Maps the whole file. Errors: NOT_FOUND when it cannot be opened, INVALID_ARGUMENT when it is no
  // regular file. An empty file maps to an empty span.
  static Result<std::shared_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // [offset, offset + length) of the file, or an error that names the three numbers. No overflow.
  Result<std::span<const std::byte>> slice(std::uint64_t offset, std::uint64_t length) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
};

}  // namespace tutti
