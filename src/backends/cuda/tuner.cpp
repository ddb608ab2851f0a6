#include "backends/cuda/tuner.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/memory.h"
#include "base/hash.h"

namespace tutti::cuda {
namespace {

// Ways take turns, since a card at its power limit changes its clock all the time; the shortest
// turn counts. Short ones are repeated within a turn.
constexpr int kTurns = 3;
constexpr double kTurnSeconds = 1e-3;
constexpr int kMaxRuns = 20;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Tuner::Tuner(ArtifactStore& store, std::string machine, int device)
    : store_(store), machine_(std::move(machine)), device_(device) {}

Artifact Tuner::artifact_of(const std::string& key) const {
  return {"cuda", "choice", machine_, "", key, hash_bytes(bytes_of(str_cat(machine_, "\n", key))),
          ""};
}

std::string Tuner::find(const std::string& key) {
  const auto known = choices_.find(key);
  if (known != choices_.end()) return known->second;
  const auto kept = store_.find(artifact_of(key));
  if (kept == nullptr) return "";
  return choices_.emplace(key, kept->content).first->second;
}

std::string Tuner::known(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return find(key);
}

void Tuner::keep(const std::string& key, const std::string& name) {
  choices_[key] = name;
  Artifact artifact = artifact_of(key);
  artifact.content = name;
  store_.add(std::move(artifact));
}

// Seconds of one of `runs` runs.
Result<double> Tuner::time(cudaStream_t stream, const TunedWay& way, int runs) {
  TUTTI_ASSIGN_OR_RETURN(const auto begin, Event::create(true));
  TUTTI_ASSIGN_OR_RETURN(const auto end, Event::create(true));
  TUTTI_CUDA(cudaEventRecord(begin->get(), stream));
  for (int i = 0; i < runs; ++i) TUTTI_RETURN_IF_ERROR(way.run());
  TUTTI_CUDA(cudaEventRecord(end->get(), stream));
  TUTTI_RETURN_IF_ERROR(wait_for(end->get()));
  float milliseconds = 0;
  TUTTI_CUDA(cudaEventElapsedTime(&milliseconds, begin->get(), end->get()));
  return static_cast<double>(milliseconds) * 1e-3 / runs;
}

Result<std::size_t> Tuner::measure(cudaStream_t stream, std::span<const TunedWay> ways) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> seconds(ways.size(), kNever);
  Status failure;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const auto first = time(stream, ways[i], 1);  // loads its code
    const auto once = first.ok() ? time(stream, ways[i], 1) : first;
    if (once.ok()) {
      seconds[i] = *once;
    } else {
      failure = once.status();
    }
  }
  const double best = *std::min_element(seconds.begin(), seconds.end());
  if (best == kNever) return failure;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (seconds[i] > 2 * best) continue;
      const double runs = kTurnSeconds / std::max(seconds[i], 1e-6);
      TUTTI_ASSIGN_OR_RETURN(
          const double taken,
          time(stream, ways[i], static_cast<int>(std::clamp<double>(runs, 1, kMaxRuns))));
      seconds[i] = std::min(seconds[i], taken);
    }
  }
  return static_cast<std::size_t>(std::min_element(seconds.begin(), seconds.end()) -
                                  seconds.begin());
}

Result<std::size_t> Tuner::fastest(const std::string& key, cudaStream_t stream,
                                   std::span<const TunedWay> ways) {
  if (ways.empty()) return internal_error("nothing to choose from for ", key);
  const std::lock_guard lock(mutex_);
  const std::string known = find(key);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (ways[i].name == known) return i;
  }
  if (ways.size() == 1) return 0;
  TUTTI_RETURN_IF_ERROR(activate(device_));
  TUTTI_ASSIGN_OR_RETURN(const std::size_t choice, measure(stream, ways));
  keep(key, ways[choice].name);
  return choice;
}

}  // namespace tutti::cuda
