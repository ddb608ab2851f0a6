#include <dlfcn.h>

#include <filesystem>

#include "backends/abi/plugin_backend.h"

namespace tutti::abi {

std::vector<std::string> plugin_paths(const std::string& name, const std::string& directory) {
  const std::string file = str_cat("libtutti_", name, ".so");
  if (!directory.empty()) return {(std::filesystem::path(directory) / file).string()};
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto folder = program.parent_path();
  return {(folder / file).string(), (folder.parent_path() / "lib" / file).string()};
}

Result<std::unique_ptr<Backend>> open_plugin(const std::string& path, const std::string& target) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return not_found("'", path, "' does not exist");
  // Never closed: its threads and what it registered may outlive any caller.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unavailable("'", path, "' does not load: ", ::dlerror());
  auto entry = reinterpret_cast<tutti_backend_entry_fn>(::dlsym(library, TUTTI_BACKEND_ENTRY));
  if (entry == nullptr) {
    return unimplemented("'", path, "' is no backend: it has no " TUTTI_BACKEND_ENTRY);
  }
  auto backend = make_plugin_backend(entry(), target);
  if (!backend.ok() && backend.status().code() == StatusCode::kUnimplemented) {
    return backend.status().with_context(path);
  }
  return backend;
}

Result<std::unique_ptr<Backend>> find_plugin(const std::string& name, const std::string& directory,
                                             const std::string& target) {
  std::string places;
  for (const std::string& path : plugin_paths(name, directory)) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return open_plugin(path, target);
    places += str_cat(places.empty() ? "" : ", ", path);
  }
  return not_found("no plug-in for backend '", name, "'; looked for ", places);
}

}  // namespace tutti::abi
