// Writes the data file of a plan: one weight after another, each at the start of a page.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/tensor.h"

namespace tutti {

inline constexpr std::uint64_t kDataAlignment = 4096;
// Tensors up to this size lie in the plan file itself.
inline constexpr std::size_t kMaxInlineBytes = 1024;

class DataWriter {
 public:
  // The file comes to be with the first weight.
  explicit DataWriter(std::string path) : path_(std::move(path)) {}

  // Where the tensor's bytes begin. Tensors that share memory are written once.
  Result<std::uint64_t> add(const Tensor& tensor);

  std::uint64_t size() const { return file_ == nullptr ? 0 : file_->size(); }
  Hash128 digest() const { return hasher_.digest(); }
  Status flush() { return file_ == nullptr ? Status() : file_->flush(); }
  // Puts the file in place; removes one that is no longer needed.
  Status commit();

 private:
  Status write(std::span<const std::byte> bytes);

  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  Hasher hasher_;
  std::map<std::pair<const std::byte*, std::size_t>, std::uint64_t> written_;
};

}  // namespace tutti
