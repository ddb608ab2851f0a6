// Tensor bytes that lie outside the protobuf file, memory-mapped.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mapped_file.h"
#include "base/status.h"

namespace onnx {
class TensorProto;
}

namespace tutti {

// TensorProto.external_data, parsed. Unknown keys are ignored, as ONNX asks.
struct ExternalLocation {
  std::string file;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;  // absent: as long as the tensor needs
};
Result<ExternalLocation> parse_external_location(const onnx::TensorProto& tensor);

// The files of one folder. A path that would leave the folder (absolute, "..", a symbolic link to
// elsewhere) is refused. Files stay mapped while a tensor or this object needs them.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}  // "": no files
  Result<std::shared_ptr<MappedFile>> open(const std::string& location);

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<MappedFile>> open_;
};

}  // namespace tutti
