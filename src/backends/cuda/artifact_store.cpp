#include "backends/cuda/artifact_store.h"

namespace tutti::cuda {

ArtifactStore::ArtifactStore(std::string folder) : disk_(std::move(folder)) {}

void ArtifactStore::offer(const Artifact& artifact) {
  auto kept = std::make_shared<const Artifact>(artifact);
  const std::lock_guard lock(mutex_);
  offered_.insert_or_assign(identity_of(artifact.kind, artifact.key), std::move(kept));
}

std::shared_ptr<const Artifact> ArtifactStore::find(const Artifact& wanted,
                                                    const Hash128& disk_key) {
  const Identity identity = identity_of(wanted.kind, wanted.key);
  {
    const std::lock_guard lock(mutex_);
    for (const Artifacts* known : {&used_, &offered_}) {
      const auto found = known->find(identity);
      if (found == known->end()) continue;
      const std::shared_ptr<const Artifact> artifact = found->second;
      used_.emplace(identity, artifact);
      return artifact;
    }
  }
  Artifact artifact = wanted;
  artifact.content = disk_.read(disk_key, wanted.kind);
  if (artifact.content.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  return used_.emplace(identity, std::make_shared<const Artifact>(std::move(artifact)))
      .first->second;
}

std::shared_ptr<const Artifact> ArtifactStore::add(Artifact artifact, const Hash128& disk_key) {
  disk_.write(disk_key, artifact.kind, artifact.content);
  const Identity identity = identity_of(artifact.kind, artifact.key);
  auto kept = std::make_shared<const Artifact>(std::move(artifact));
  const std::lock_guard lock(mutex_);
  used_.insert_or_assign(identity, kept);
  return kept;
}

bool ArtifactStore::withdraw(const std::string& kind, const Hash128& key) {
  const Identity identity = identity_of(kind, key);
  const std::lock_guard lock(mutex_);
  if (offered_.erase(identity) == 0) return false;
  used_.erase(identity);
  return true;
}

std::vector<Artifact> ArtifactStore::used() const {
  std::vector<Artifact> artifacts;
  const std::lock_guard lock(mutex_);
  for (const auto& [identity, artifact] : used_) artifacts.push_back(*artifact);
  return artifacts;
}

}  // namespace tutti::cuda
