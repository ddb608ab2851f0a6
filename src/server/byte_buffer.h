// Bytes of a request or response body: no zeroing, and growth that moves pages instead of copying.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace tutti::server {

// Movable. Memory that is not there is a false from resize() and reserve(), not an exception.
class ByteBuffer {
 public:
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }

  [[nodiscard]] bool reserve(std::size_t capacity);
  // New bytes are undefined.
  [[nodiscard]] bool resize(std::size_t size);
  [[nodiscard]] bool append(const void* bytes, std::size_t count);

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace tutti::server
