// Artifact and tutti_artifact, both ways.
#pragma once

#include "plan/artifacts.h"
#include "tutti/backend.h"

namespace tutti::abi {

// Valid as long as the artifact.
inline tutti_artifact view_of(const Artifact& artifact) {
  tutti_artifact out{};
  out.size = sizeof out;
  out.kind = artifact.kind.c_str();
  out.target = artifact.target.c_str();
  out.made_by = artifact.made_by.c_str();
  out.name = artifact.name.c_str();
  out.key_high = artifact.key.high;
  out.key_low = artifact.key.low;
  out.content = artifact.content.data();
  out.content_bytes = artifact.content.size();
  return out;
}

inline Artifact to_artifact(const std::string& backend, const tutti_artifact& given) {
  return {backend,
          given.kind,
          given.target,
          given.made_by,
          given.name,
          {given.key_high, given.key_low},
          std::string(static_cast<const char*>(given.content), given.content_bytes)};
}

}  // namespace tutti::abi
