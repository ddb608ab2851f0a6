// A folder of this process, in memory where there is such a file system; gone with the object.
#pragma once

#include <filesystem>
#include <string>

namespace tutti::fuzz {

class Folder {
 public:
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code error;
    const bool has_memory = std::filesystem::is_directory(memory, error);
    std::string pattern =
        ((has_memory ? memory : std::filesystem::temp_directory_path()) / "tutti_fuzz_XXXXXX")
            .string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tutti::fuzz
