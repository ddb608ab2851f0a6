// A file that appears under its name whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace tutti {

// Bytes go to a temporary file beside the target; commit() flushes it to disk and renames it over
// the target. Without a commit the temporary file is removed. Errors name the target.
class AtomicFile {
 public:
  static Result<std::unique_ptr<AtomicFile>> create(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status write(std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }
  // To disk, so that a later commit() has nothing left but the renaming.
  Status flush();
  Status commit();

 private:
  AtomicFile() = default;
  Status error(const char* action) const;

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace tutti
