#include "backends/cuda/dynamic_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace tutti::cuda {
namespace {

namespace fs = std::filesystem;

void split_paths(const char* text, std::vector<std::string>* folders) {
  if (text == nullptr) return;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(':'));
    if (!item.empty()) folders->emplace_back(item);
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
  }
}

// prefix/lib/python3.X/site-packages/nvidia/PACKAGE/lib
void add_python_folders(const fs::path& prefix, std::vector<std::string>* folders) {
  std::error_code ignored;
  for (const auto& python : fs::directory_iterator(prefix / "lib", ignored)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    for (const char* site : {"site-packages", "dist-packages"}) {
      for (const auto& package : fs::directory_iterator(python.path() / site / "nvidia", ignored)) {
        const fs::path folder = package.path() / "lib";
        if (fs::is_directory(folder, ignored)) folders->push_back(folder.string());
      }
    }
  }
}

std::string package_of(std::string_view soname) {
  if (soname.starts_with("libnvrtc")) return "nvidia-cuda-nvrtc";
  if (soname.starts_with("libcublas")) return "nvidia-cublas";
  if (soname.starts_with("libcudnn")) return "nvidia-cudnn-cu13";
  if (soname.starts_with("libcudart")) return "nvidia-cuda-runtime";
  if (soname.starts_with("libnccl")) return "nvidia-nccl-cu13";
  return "CUDA 13";
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  split_paths(std::getenv("TUTTI_CUDA_LIBRARY_PATH"), &folders);
  folders.insert(folders.end(), {"/usr/local/cuda/lib64", "/usr/local/cuda-13/lib64"});
  if (const char* venv = std::getenv("VIRTUAL_ENV")) add_python_folders(venv, &folders);
  std::vector<std::string> programs;
  split_paths(std::getenv("PATH"), &programs);
  for (const std::string& folder : programs) {
    std::error_code ignored;
    if (!fs::exists(fs::path(folder) / "python3", ignored)) continue;
    add_python_folders(fs::path(folder).parent_path(), &folders);
    break;
  }
  return folders;
}

Result<std::shared_ptr<DynamicLibrary>> DynamicLibrary::open(const std::string& soname) {
  const auto opened = [](void* handle, const std::string& path) {
    return std::shared_ptr<DynamicLibrary>(new DynamicLibrary(handle, path));
  };
  // Lazily and for all: CUDA's libraries open parts of each other by name.
  constexpr int kFlags = RTLD_LAZY | RTLD_GLOBAL;
  if (void* handle = ::dlopen(soname.c_str(), kFlags)) return opened(handle, soname);
  std::string places;
  std::string reason;
  for (const std::string& folder : library_folders()) {
    const std::string path = (fs::path(folder) / soname).string();
    places += str_cat(places.empty() ? "" : ", ", folder);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    if (void* handle = ::dlopen(path.c_str(), kFlags)) return opened(handle, path);
    reason = str_cat(" (", ::dlerror(), ")");
  }
  return not_found("cuda: ", soname, " is missing", reason, "; it comes with ", package_of(soname),
                   "; looked where the loader does and in ", places,
                   " (TUTTI_CUDA_LIBRARY_PATH adds folders)");
}

Status DynamicLibrary::find_address(const char* name, void** address) const {
  *address = ::dlsym(handle_, name);
  if (*address != nullptr) return {};
  return not_found("cuda: ", path_, " has no function ", name);
}

}  // namespace tutti::cuda
