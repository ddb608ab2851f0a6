// What a backend has made or measured for a plan and would otherwise make again wherever the plan
// is loaded: machine code, the fastest algorithm. A plan carries them in a section of its file that
// is an unknown field to whoever reads it as an ONNX model; docs/plan.md has the format.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"

namespace tutti {

// Two artifacts of one backend, kind and key stand for each other. All but these and the content is
// for people.
struct Artifact {
  std::string backend;  // "cuda"
  std::string kind;     // "cubin"
  std::string target;   // what it holds for: "sm_90"
  std::string made_by;  // "NVRTC 13.0"
  std::string name;     // "row"
  Hash128 key;
  std::string content;  // bytes
  bool operator==(const Artifact&) const = default;
};

// Adds `more` to `artifacts`, in place of those that they stand for. The result has an order that
// depends on its content alone.
void merge_artifacts(std::vector<Artifact> more, std::vector<Artifact>* artifacts);

// The section in protobuf's wire format, to be appended to a serialised model before its seal.
// Empty for none.
std::string write_artifacts(const std::vector<Artifact>& artifacts);

// Those of an unsealed plan file; none when it has no such section. Errors: bytes that are no
// message of protobuf, two sections, one of another format, an artifact without kind or key or one
// that is there twice.
Result<std::vector<Artifact>> read_artifacts(std::span<const std::byte> body);

// Puts a plan file with these artifacts, and no others, in place of the one at `path`, whose
// weights stay as they are. Errors name the file: one that is damaged or cannot be written.
Status replace_artifacts(const std::string& path, const std::vector<Artifact>& artifacts);

}  // namespace tutti
