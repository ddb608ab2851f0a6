#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tutti {

Status AtomicFile::error(const char* action) const {
  const int error = errno;
  const StatusCode code = error == ENOENT   ? StatusCode::kNotFound
                          : error == ENOSPC ? StatusCode::kResourceExhausted
                                            : StatusCode::kInvalidArgument;
  return Status(code, str_cat("file '", path_, "' cannot be ", action, ": ", std::strerror(error)));
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path) {
  std::unique_ptr<AtomicFile> file(new AtomicFile());
  file->path_ = path;
  std::string pattern = path + ".XXXXXX";
  file->fd_ = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (file->fd_ < 0) return file->error("created");
  file->temporary_ = pattern;
  // mkostemp makes private files; what we write is for whoever may read the folder.
  if (::fchmod(file->fd_, 0644) != 0) return file->error("created");
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kMaxWrite = std::size_t{1} << 30;  // the system takes at most 2 GiB
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return error("written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += static_cast<std::uint64_t>(written);
  }
  return Status();
}

Status AtomicFile::flush() { return ::fsync(fd_) == 0 ? Status() : error("written"); }

Status AtomicFile::commit() {
  TUTTI_RETURN_IF_ERROR(flush());
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) return error("written");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return error("renamed");
  temporary_.clear();
  return Status();
}

}  // namespace tutti
