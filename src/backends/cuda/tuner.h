// What was measured to be fastest, kept for the next time.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/artifact_store.h"
#include "base/status.h"

namespace tutti::cuda {

// One way to compute something. Every way gives the same result in the same place.
struct TunedWay {
  std::string name;
  std::function<Status()> run;  // on the stream
};

// Of one device. Thread-safe: one thread measures at a time.
class Tuner {
 public:
  // Choices are kept in the store, which outlives it. `machine` is what they hold for: the card and
  // the libraries' versions.
  Tuner(ArtifactStore& store, std::string machine, int device);

  // The name of the way that was chosen for `key`; empty when there was no choice yet.
  std::string known(const std::string& key);

  // The place of the fastest among `ways`. Measures it unless it is known, so not while the stream
  // is recorded. Ways that fail are passed over; the last one's error when all do.
  Result<std::size_t> fastest(const std::string& key, cudaStream_t stream,
                              std::span<const TunedWay> ways);

 private:
  Artifact artifact_of(const std::string& key) const;
  std::string find(const std::string& key);  // under mutex_
  void keep(const std::string& key, const std::string& name);
  static Result<double> time(cudaStream_t stream, const TunedWay& way, int runs);
  static Result<std::size_t> measure(cudaStream_t stream, std::span<const TunedWay> ways);

  ArtifactStore& store_;
  const std::string machine_;
  const int device_;
  std::mutex mutex_;
  std::map<std::string, std::string> choices_;  // under mutex_
};

// Ways to compute one node, of which the first run keeps the fastest. A Way has name(),
// workspace_bytes() and run(arguments).
template <class Way>
class FastestOf {
 public:
  // At least one way. The tuner may be null where there is only one.
  FastestOf(std::vector<std::unique_ptr<Way>> ways, std::string key, Tuner* tuner,
            cudaStream_t stream)
      : ways_(std::move(ways)), key_(std::move(key)), tuner_(tuner), stream_(stream) {
    const std::string known = ways_.size() > 1 ? tuner_->known(key_) : "";
    for (std::size_t i = 0; i < ways_.size() && !known.empty(); ++i) {
      if (ways_[i]->name() != known) continue;
      keep(i);
      break;
    }
  }

  const std::vector<std::unique_ptr<Way>>& ways() const { return ways_; }
  std::size_t workspace_bytes() const {
    std::size_t bytes = 0;
    for (const auto& way : ways_) bytes = std::max(bytes, way->workspace_bytes());
    return bytes;
  }
  template <class Arguments>
  Status run(const Arguments& arguments) {
    if (ways_.size() > 1) {
      std::vector<TunedWay> tuned;
      for (const auto& way : ways_) {
        tuned.push_back({way->name(), [&way, &arguments] { return way->run(arguments); }});
      }
      TUTTI_ASSIGN_OR_RETURN(const std::size_t fastest, tuner_->fastest(key_, stream_, tuned));
      keep(fastest);
    }
    return ways_.front()->run(arguments);
  }

 private:
  void keep(std::size_t i) {
    std::swap(ways_.front(), ways_[i]);
    ways_.resize(1);
  }

  std::vector<std::unique_ptr<Way>> ways_;
  std::string key_;
  Tuner* tuner_;
  cudaStream_t stream_;
};

}  // namespace tutti::cuda
