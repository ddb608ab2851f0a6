#include "server/cache/response_cache.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "server/names.h"

namespace tutti::server {
namespace {

void add_text(Hasher& hasher, std::string_view text) {
  hasher.update(static_cast<std::uint64_t>(text.size()));
  hasher.update(std::as_bytes(std::span(text)));
}

}  // namespace

std::size_t CachedResponse::byte_size() const {
  constexpr std::size_t kEntry = 128;  // the list's and the index's own, about
  std::size_t bytes = kEntry;
  for (const Output& output : outputs) {
    bytes += sizeof(Output) + output.desc.name.size() + output.data.size() +
             output.desc.shape.size() * sizeof(std::int64_t);
  }
  return bytes;
}

std::shared_ptr<const CachedResponse> ResponseCache::find(const Hash128& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->response;
}

void ResponseCache::insert(const Hash128& key, std::shared_ptr<const CachedResponse> response) {
  const std::size_t bytes = response->byte_size();
  if (bytes > capacity_) return;
  const std::lock_guard lock(mutex_);
  if (index_.contains(key)) return;
  while (used_ + bytes > capacity_) {
    used_ -= entries_.back().bytes;
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({key, std::move(response), bytes});
  index_.emplace(key, entries_.begin());
  used_ += bytes;
}

std::size_t ResponseCache::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

Hash128 response_key(std::uint64_t model, const InferRequest& request) {
  std::vector<const InferInput*> inputs;
  for (const InferInput& input : request.inputs) inputs.push_back(&input);
  std::sort(inputs.begin(), inputs.end(),
            [](const InferInput* a, const InferInput* b) { return a->name < b->name; });
  Hasher hasher;
  hasher.update(model);
  for (const InferInput* input : inputs) {
    add_text(hasher, input->name);
    hasher.update(static_cast<std::uint64_t>(input->dtype));
    hasher.update(static_cast<std::uint64_t>(input->shape.size()));
    for (const std::int64_t size : input->shape) hasher.update(static_cast<std::uint64_t>(size));
    hasher.update(static_cast<std::uint64_t>(input->data.size()));
    hasher.update(input->data);
  }
  // In their order, which is that of the answer.
  for (const std::string& output : request.outputs) add_text(hasher, output);
  return hasher.digest();
}

Result<std::size_t> parse_cache_config(std::string_view text) {
  constexpr std::string_view kStart = "local,size=";
  if (!text.starts_with(kStart)) {
    return invalid_argument("'", printable(text), "' is no cache, expected local,size=BYTES");
  }
  const std::string_view number = text.substr(kStart.size());
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
  if (error != std::errc() || end != number.data() + number.size() || size == 0) {
    return invalid_argument("size '", printable(number), "', expected a number of bytes >= 1");
  }
  return size;
}

}  // namespace tutti::server
