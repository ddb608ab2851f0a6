// Answers that are given again to the same request: in memory, the least recently used go first.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "server/infer.h"

namespace tutti::server {

struct CachedResponse {
  struct Output {
    OutputDesc desc;
    std::vector<std::byte> data;
  };
  std::vector<Output> outputs;  // in the order of the request
  std::size_t byte_size() const;
};

// Thread safe.
class ResponseCache {
 public:
  explicit ResponseCache(std::size_t capacity) : capacity_(capacity) {}

  std::shared_ptr<const CachedResponse> find(const Hash128& key);  // null when it is not there
  // What is larger than the whole cache is not kept; a key that is there already stays as it is.
  void insert(const Hash128& key, std::shared_ptr<const CachedResponse> response);

  std::size_t capacity() const { return capacity_; }
  std::size_t used() const;  // bytes

 private:
  struct Entry {
    Hash128 key;
    std::shared_ptr<const CachedResponse> response;
    std::size_t bytes;
  };
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  // Under mutex_.
  std::list<Entry> entries_;  // the most recently used first
  std::unordered_map<Hash128, std::list<Entry>::iterator> index_;
  std::size_t used_ = 0;
};

// What makes two requests the same: names, types, shapes and bytes of the inputs, in any order, and
// the outputs asked for. `model` tells loaded versions of models apart.
Hash128 response_key(std::uint64_t model, const InferRequest& request);

// --cache-config "local,size=N": the bytes. INVALID_ARGUMENT names the part that is wrong.
Result<std::size_t> parse_cache_config(std::string_view text);

}  // namespace tutti::server
