#include "cli/artifact_report.h"

#include <algorithm>
#include <cstdio>

namespace tutti::cli {

std::string ArtifactGroup::text() const {
  char size[32];
  std::snprintf(size, sizeof size, "%.2f MB", static_cast<double>(bytes) * 1e-6);
  return str_cat(count, " ", kind, " for ", target,
                 made_by.empty() ? "" : str_cat(" (", made_by, ")"), ", ", size);
}

std::vector<ArtifactGroup> group_artifacts(const std::vector<Artifact>& artifacts) {
  std::vector<ArtifactGroup> groups;
  for (const Artifact& a : artifacts) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const ArtifactGroup& g) {
      return g.backend == a.backend && g.kind == a.kind && g.target == a.target &&
             g.made_by == a.made_by;
    });
    if (group == groups.end()) {
      group = groups.insert(group, {a.backend, a.kind, a.target, a.made_by, 0, 0});
    }
    ++group->count;
    group->bytes += a.content.size();
  }
  return groups;
}

}  // namespace tutti::cli
