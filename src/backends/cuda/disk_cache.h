// Small files by hash under $TUTTI_CACHE_DIR/cuda (default ~/.cache/tutti/cuda): machine code, and
// what was measured. A cache never fails: a file that cannot be read or written counts as absent.
#pragma once

#include <string>

#include "base/hash.h"

namespace tutti::cuda {

// $TUTTI_CACHE_DIR/cuda, or the same in the user's cache folder; empty when neither is known.
std::string cache_folder();

class DiskCache {
 public:
  explicit DiskCache(std::string folder = cache_folder());  // empty: keeps nothing

  // Empty when there is none. `kind` is the file's ending: "cubin".
  std::string read(const Hash128& key, const std::string& kind) const;
  // Whole or not at all, also when several processes write.
  void write(const Hash128& key, const std::string& kind, const std::string& content) const;

 private:
  std::string path_of(const Hash128& key, const std::string& kind) const;
  std::string folder_;
};

}  // namespace tutti::cuda
