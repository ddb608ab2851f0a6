// Keeps a request's outputs until they are written into its answer.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "server/byte_buffer.h"
#include "server/infer.h"

namespace tutti::server {

class BufferSink final : public OutputSink {
 public:
  // `most_bytes`: what all outputs together may have.
  explicit BufferSink(std::size_t most_bytes = std::numeric_limits<std::size_t>::max())
      : most_bytes_(most_bytes) {}

  // RESOURCE_EXHAUSTED when they would have more, or there is no memory.
  Result<std::byte*> allocate(std::size_t position, const OutputDesc& output,
                              std::size_t bytes) override;
  // Empty for an output that lies somewhere else.
  std::span<const std::byte> output(std::size_t position) const;

 private:
  const std::size_t most_bytes_;
  std::size_t total_ = 0;
  std::vector<ByteBuffer> outputs_;
};

}  // namespace tutti::server
