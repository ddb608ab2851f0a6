#include "server/byte_buffer.h"

#include <algorithm>
#include <cstring>

namespace tutti::server {

bool ByteBuffer::reserve(std::size_t capacity) {
  if (capacity <= capacity_) return true;
  // Large blocks are mappings of their own, which realloc() moves without touching them.
  void* grown = std::realloc(data_.get(), capacity);
  if (grown == nullptr) return false;
  static_cast<void>(data_.release());
  data_.reset(static_cast<std::byte*>(grown));
  capacity_ = capacity;
  return true;
}

bool ByteBuffer::resize(std::size_t size) {
  if (size > capacity_ && !reserve(std::max(size, capacity_ + capacity_ / 2))) return false;
  size_ = size;
  return true;
}

bool ByteBuffer::append(const void* bytes, std::size_t count) {
  if (count == 0) return true;
  const std::size_t begin = size_;
  if (!resize(begin + count)) return false;
  std::memcpy(data_.get() + begin, bytes, count);
  return true;
}

}  // namespace tutti::server
