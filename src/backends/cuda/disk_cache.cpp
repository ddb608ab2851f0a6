#include "backends/cuda/disk_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/atomic_file.h"
#include "base/str_cat.h"

namespace tutti::cuda {
namespace {

namespace fs = std::filesystem;

// A file: this (the name is older than other kinds), the digest of the content, the content.
constexpr std::string_view kMagic = "tutti-cubin-1\n";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

std::string cache_folder() {
  if (const char* given = std::getenv("TUTTI_CACHE_DIR")) return str_cat(given, "/cuda");
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) return str_cat(cache, "/tutti/cuda");
  if (const char* home = std::getenv("HOME")) return str_cat(home, "/.cache/tutti/cuda");
  return "";
}

DiskCache::DiskCache(std::string folder) : folder_(std::move(folder)) {}

std::string DiskCache::path_of(const Hash128& key, const std::string& kind) const {
  return str_cat(folder_, "/", key.to_hex(), ".", kind);
}

std::string DiskCache::read(const Hash128& key, const std::string& kind) const {
  if (folder_.empty()) return "";
  std::ifstream file(path_of(key, kind), std::ios::binary);
  if (!file) return "";
  std::ostringstream content;
  content << file.rdbuf();
  std::string text = content.str();
  const std::size_t header = kMagic.size() + 33;
  if (text.size() <= header || !text.starts_with(kMagic)) return "";
  const std::string_view digest = std::string_view(text).substr(kMagic.size(), 32);
  const std::string_view found = std::string_view(text).substr(header);
  return hash_bytes(bytes_of(found)).to_hex() == digest ? std::string(found) : "";
}

void DiskCache::write(const Hash128& key, const std::string& kind,
                      const std::string& content) const {
  if (folder_.empty()) return;
  const std::string path = path_of(key, kind);
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  auto file = AtomicFile::create(path);
  if (!file.ok()) return;
  const std::string header = str_cat(kMagic, hash_bytes(bytes_of(content)).to_hex(), "\n");
  if (!(*file)->write(bytes_of(header)).ok() || !(*file)->write(bytes_of(content)).ok()) return;
  (void)(*file)->commit();
}

}  // namespace tutti::cuda
