#include "plan/data_writer.h"

#include <filesystem>
#include <system_error>
#include <vector>

namespace tutti {

Status DataWriter::write(std::span<const std::byte> bytes) {
  hasher_.update(bytes);
  return file_->write(bytes);
}

Result<std::uint64_t> DataWriter::add(const Tensor& tensor) {
  const std::pair<const std::byte*, std::size_t> content(tensor.data(), tensor.byte_size());
  const auto known = written_.find(content);
  if (known != written_.end()) return known->second;
  if (file_ == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(file_, AtomicFile::create(path_));
  }
  const std::uint64_t padding = (kDataAlignment - size() % kDataAlignment) % kDataAlignment;
  TUTTI_RETURN_IF_ERROR(write(std::vector<std::byte>(padding)));
  const std::uint64_t offset = size();
  TUTTI_RETURN_IF_ERROR(write({content.first, content.second}));
  written_.emplace(content, offset);
  return offset;
}

Status DataWriter::commit() {
  if (file_ != nullptr) return file_->commit();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  return Status();
}

}  // namespace tutti
