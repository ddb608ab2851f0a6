// NVIDIA's large libraries, found on the machine when the backend starts: the bundle carries none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::cuda {

class DynamicLibrary {
 public:
  // By its soname ("libnvrtc.so.13"): where the loader looks, then in library_folders(). NOT_FOUND
  // names the library, the package that holds it, and the folders.
  static Result<std::shared_ptr<DynamicLibrary>> open(const std::string& soname);

  // NOT_FOUND when the library has no such function.
  template <class F>
  Status find(const char* name, F* function) const {
    void* address = nullptr;
    TUTTI_RETURN_IF_ERROR(find_address(name, &address));
    *function = reinterpret_cast<F>(address);
    return {};
  }

  const std::string& path() const { return path_; }
  void* handle() const { return handle_; }  // of dlopen

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Status find_address(const char* name, void** address) const;

  void* handle_;  // never closed: CUDA's libraries do not like to go
  std::string path_;
};

// $TUTTI_CUDA_LIBRARY_PATH (folders between colons), the toolkit's usual places, and the folders of
// NVIDIA's Python packages beside the first python3 of $PATH and in $VIRTUAL_ENV.
std::vector<std::string> library_folders();

}  // namespace tutti::cuda
