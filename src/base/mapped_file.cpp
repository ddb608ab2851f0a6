#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tutti {

Result<std::shared_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return not_found("file '", path, "': ", std::strerror(errno));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return invalid_argument("file '", path, "' is no regular file");
  }
  std::shared_ptr<MappedFile> file(new MappedFile());
  file->path_ = path;
  file->size_ = static_cast<std::size_t>(info.st_size);
  if (file->size_ > 0) {
    void* memory = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      file->size_ = 0;
      return internal_error("file '", path, "' cannot be mapped: ", std::strerror(error));
    }
    file->data_ = static_cast<const std::byte*>(memory);
  }
  ::close(fd);
  return file;
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::span<const std::byte>> MappedFile::slice(std::uint64_t offset,
                                                     std::uint64_t length) const {
  if (offset > size_ || length > size_ - offset) {
    return invalid_argument("file '", path_, "' has ", size_, " bytes; offset ", offset,
                            " and length ", length, " reach past its end");
  }
  return bytes().subspan(offset, length);
}

}  // namespace tutti
