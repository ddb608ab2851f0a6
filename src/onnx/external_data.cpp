#include "onnx/external_data.h"

#include <charconv>
#include <filesystem>
#include <system_error>

#include "onnx.pb.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

Result<std::uint64_t> parse_unsigned(std::string_view key, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return invalid_argument("external data: ", key, " '", text,
                            "' is no whole number in [0, 2^64)");
  }
  return value;
}

bool is_inside(const fs::path& folder, const fs::path& file) {
  auto part = file.begin();
  for (const fs::path& expected : folder) {
    if (part == file.end() || *part != expected) return false;
    ++part;
  }
  return part != file.end();
}

}  // namespace

Result<ExternalLocation> parse_external_location(const onnx::TensorProto& tensor) {
  ExternalLocation location;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") {
      location.file = entry.value();
    } else if (entry.key() == "offset") {
      TUTTI_ASSIGN_OR_RETURN(location.offset, parse_unsigned("offset", entry.value()));
    } else if (entry.key() == "length") {
      TUTTI_ASSIGN_OR_RETURN(location.length, parse_unsigned("length", entry.value()));
    }
  }
  if (location.file.empty()) return invalid_argument("external data has no location");
  return location;
}

Result<std::shared_ptr<MappedFile>> ExternalFiles::open(const std::string& location) {
  const auto known = open_.find(location);
  if (known != open_.end()) return known->second;

  if (folder_.empty()) {
    return invalid_argument("external data '", location, "': this model may have none");
  }
  const fs::path relative(location);
  bool leaves = relative.is_absolute() || location.find('\0') != std::string::npos;
  for (const fs::path& part : relative) leaves = leaves || part == "..";
  if (leaves) {
    return invalid_argument("external data '", location,
                            "': the path must stay inside the model's folder");
  }
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  if (error) return not_found("folder '", folder_, "': ", error.message());
  const fs::path file = fs::canonical(folder / relative, error);
  if (error) return not_found("external data '", location, "': ", error.message());
  if (!is_inside(folder, file)) {
    return invalid_argument("external data '", location,
                            "' is a link that leaves the model's folder");
  }
  // Checked before opening, since opening a pipe would wait for its writer.
  if (!fs::is_regular_file(file, error)) {
    return invalid_argument("external data '", location, "' is no regular file");
  }
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<MappedFile> mapped, MappedFile::open(file.string()));
  open_.emplace(location, mapped);
  return mapped;
}

}  // namespace tutti
