// What was compiled and what was measured, by this process or before: in memory, in plans, on disk.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cuda/disk_cache.h"
#include "plan/artifacts.h"

namespace tutti::cuda {

// Thread-safe. One a backend; outlives what uses it.
class ArtifactStore {
 public:
  explicit ArtifactStore(std::string folder = cache_folder());  // empty: nothing on disk

  // Of a plan. It is preferred to what is on disk.
  void offer(const Artifact& artifact);

  // The artifact of `wanted`'s kind and key; null when there is none. `disk_key` is its name on
  // disk, where `wanted` says the rest of it. What is found counts as used.
  std::shared_ptr<const Artifact> find(const Artifact& wanted, const Hash128& disk_key);
  std::shared_ptr<const Artifact> find(const Artifact& wanted) { return find(wanted, wanted.key); }

  // What was made here: goes to disk and counts as used.
  std::shared_ptr<const Artifact> add(Artifact artifact, const Hash128& disk_key);
  void add(const Artifact& artifact) { add(artifact, Hash128(artifact.key)); }

  // One that turned out to be of no use. False: no plan has offered it.
  bool withdraw(const std::string& kind, const Hash128& key);

  std::vector<Artifact> used() const;

 private:
  using Identity = std::tuple<std::string, std::uint64_t, std::uint64_t>;
  using Artifacts = std::map<Identity, std::shared_ptr<const Artifact>>;
  static Identity identity_of(const std::string& kind, const Hash128& key) {
    return {kind, key.high, key.low};
  }

  const DiskCache disk_;
  mutable std::mutex mutex_;
  Artifacts offered_;  // under mutex_, as the next
  Artifacts used_;
};

}  // namespace tutti::cuda
