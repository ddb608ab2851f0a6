#include "runtime/takes.h"

#include <algorithm>

namespace tutti {
namespace {

// Addresses for which recordings are kept: as many as there are places for prologue results.
constexpr std::size_t kMaxTakes = 8;

constexpr std::int64_t kNew = -1;
constexpr std::int64_t kHasRun = 0;

}  // namespace

Take* Takes::find(const std::vector<const void*>& addresses, bool* has_run) {
  const auto found = std::find_if(takes_.begin(), takes_.end(),
                                  [&](const Take& take) { return take.addresses == addresses; });
  *has_run = found != takes_.end();
  if (found != takes_.end()) {
    found->last_use = ++uses_;
    return &*found;
  }
  if (takes_.size() >= kMaxTakes) {
    takes_.erase(std::min_element(takes_.begin(), takes_.end(), [](const Take& a, const Take& b) {
      return a.last_use < b.last_use;
    }));
  }
  takes_.push_back({addresses, {}, 0, ++uses_});
  return &takes_.back();
}

Result<Pass> Takes::choose(Take* take, bool has_run, Communicator* group) {
  const Standing mine{!has_run                   ? kNew
                      : take->recordings.empty() ? kHasRun
                                                 : take->number,
                      last_number_};
  standings_.assign(group == nullptr ? 1 : static_cast<std::size_t>(group->size()), mine);
  if (group != nullptr) {
    TUTTI_RETURN_IF_ERROR(group->gather(&mine, standings_.data(), sizeof mine));
  }
  Pass pass = mine.take > kHasRun ? Pass::kReplay : Pass::kRecord;
  for (const Standing& standing : standings_) {
    if (standing.take == kNew) return Pass::kSteps;
    // Ranks that remember different recordings make a new one.
    if (standing.take != mine.take) pass = Pass::kRecord;
    last_number_ = std::max(last_number_, standing.last_number);
  }
  if (pass == Pass::kRecord) {
    take->recordings.clear();
    take->number = ++last_number_;
  }
  return pass;
}

}  // namespace tutti
