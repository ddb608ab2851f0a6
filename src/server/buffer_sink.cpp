#include "server/buffer_sink.h"

namespace tutti::server {

Result<std::byte*> BufferSink::allocate(std::size_t position, const OutputDesc& output,
                                        std::size_t bytes) {
  const auto exhausted = [&](const std::string& why) {
    return Status(StatusCode::kResourceExhausted,
                  str_cat("output '", output.name, "' of ", bytes, " bytes", why));
  };
  if (bytes > most_bytes_ - total_) {
    return exhausted(
        str_cat(" makes an answer above ", most_bytes_, " bytes, the most it can hold"));
  }
  if (outputs_.size() <= position) outputs_.resize(position + 1);
  ByteBuffer& buffer = outputs_[position];
  if (!buffer.resize(bytes)) return exhausted(": no memory left");
  total_ += bytes;
  return buffer.data();
}

std::span<const std::byte> BufferSink::output(std::size_t position) const {
  return position < outputs_.size() ? outputs_[position].span() : std::span<const std::byte>();
}

}  // namespace tutti::server
