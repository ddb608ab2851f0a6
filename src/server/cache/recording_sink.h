// Passes outputs on to where they go and remembers where that was.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/cache/response_cache.h"
#include "server/infer.h"

namespace tutti::server {

class RecordingSink final : public OutputSink {
 public:
  RecordingSink(std::shared_ptr<OutputSink> next, std::size_t outputs)
      : next_(std::move(next)), places_(outputs) {}

  Result<std::byte*> allocate(std::size_t position, const OutputDesc& output,
                              std::size_t bytes) override {
    TUTTI_ASSIGN_OR_RETURN(std::byte * data, next_->allocate(position, output, bytes));
    places_[position] = {data, bytes};
    return data;
  }

  MemoryPlace place(std::size_t position) const override { return next_->place(position); }

  Status complete(bool is_batched, std::vector<OutputDesc>* outputs) override {
    return next_->complete(is_batched, outputs);
  }

  std::span<const std::byte> data(std::size_t position) const { return places_[position]; }
  // A copy of what was written, which must be all of it.
  std::shared_ptr<const CachedResponse> copy(const std::vector<OutputDesc>& outputs) const {
    auto response = std::make_shared<CachedResponse>();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      response->outputs.push_back({outputs[i], {places_[i].begin(), places_[i].end()}});
    }
    return response;
  }

 private:
  const std::shared_ptr<OutputSink> next_;
  std::vector<std::span<const std::byte>> places_;
};

}  // namespace tutti::server
