#include "runtime/strides.h"

#include <utility>

namespace tutti {

Result<Dims> broadcast_strides(const Dims& dims, const Dims& target) {
  if (dims.size() > target.size()) {
    return invalid_argument("shape ", dims, " does not broadcast to ", target);
  }
  const Dims dense = contiguous_strides(dims);
  const std::size_t shift = target.size() - dims.size();
  Dims strides(target.size(), 0);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == target[d + shift]) {
      strides[d + shift] = dims[d] == 1 ? 0 : dense[d];
    } else if (dims[d] != 1) {
      return invalid_argument("shape ", dims, " does not broadcast to ", target);
    }
  }
  return strides;
}

Dims collapse(const Dims& dims, std::vector<Dims>* strides) {
  Dims out;
  std::vector<Dims> merged(strides->size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    bool merges = !out.empty();
    for (std::size_t i = 0; merges && i < merged.size(); ++i) {
      merges = merged[i].back() == (*strides)[i][d] * dims[d];
    }
    if (merges) {
      out.back() *= dims[d];
    } else {
      out.push_back(dims[d]);
    }
    for (std::size_t i = 0; i < merged.size(); ++i) {
      if (merges) {
        merged[i].back() = (*strides)[i][d];
      } else {
        merged[i].push_back((*strides)[i][d]);
      }
    }
  }
  if (out.empty()) {
    out.push_back(1);
    for (Dims& operand : merged) operand.push_back(0);
  }
  *strides = std::move(merged);
  return out;
}

}  // namespace tutti
