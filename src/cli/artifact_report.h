// What a plan's artifacts are, in numbers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/artifacts.h"

namespace tutti::cli {

// Those of one backend, kind, target and maker.
struct ArtifactGroup {
  std::string backend;
  std::string kind;
  std::string target;
  std::string made_by;
  std::size_t count = 0;
  std::size_t bytes = 0;

  // "31 cubin for sm_90 (NVRTC 13.0), 0.53 MB"
  std::string text() const;
};

std::vector<ArtifactGroup> group_artifacts(const std::vector<Artifact>& artifacts);

}  // namespace tutti::cli
