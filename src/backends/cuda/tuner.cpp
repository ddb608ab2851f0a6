#include "backends/cuda/tuner.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "backends/cuda/memory.h"
#include "base/atomic_file.h"
#include "base/hash.h"

namespace tutti::cuda {
namespace {

// Short ones are repeated for that long, within bounds.
constexpr double kMeasuredSeconds = 3e-3;
constexpr int kMaxRuns = 20;
constexpr int kMinRuns = 2;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Tuner::Tuner(std::string folder, std::string machine, int device)
    : folder_(std::move(folder)), machine_(std::move(machine)), device_(device) {}

std::string Tuner::file_of(const std::string& key) const {
  if (folder_.empty()) return "";
  const std::string text = str_cat(machine_, "\n", key);
  return str_cat(folder_, "/", hash_bytes(bytes_of(text)).to_hex(), ".choice");
}

// A file: the machine, the key and the name, a line each.
std::string Tuner::find(const std::string& key) {
  const auto known = choices_.find(key);
  if (known != choices_.end()) return known->second;
  std::ifstream file(file_of(key));
  std::string machine;
  std::string kept;
  std::string name;
  if (!std::getline(file, machine) || !std::getline(file, kept) || !std::getline(file, name)) {
    return "";
  }
  if (machine != machine_ || kept != key) return "";
  choices_.emplace(key, name);
  return name;
}

std::string Tuner::known(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return find(key);
}

// What cannot be kept is measured again next time.
void Tuner::keep(const std::string& key, const std::string& name) {
  choices_[key] = name;
  const std::string path = file_of(key);
  if (path.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
  auto file = AtomicFile::create(path);
  if (!file.ok()) return;
  if (!(*file)->write(bytes_of(str_cat(machine_, "\n", key, "\n", name, "\n"))).ok()) return;
  (void)(*file)->commit();
}

// One that takes twice as long as the best is not run again.
Result<double> Tuner::measure(cudaStream_t stream, const TunedWay& way, double best) {
  TUTTI_ASSIGN_OR_RETURN(const auto begin, Event::create(true));
  TUTTI_ASSIGN_OR_RETURN(const auto end, Event::create(true));
  const auto time = [&](int runs) -> Result<double> {
    TUTTI_CUDA(cudaEventRecord(begin->get(), stream));
    for (int i = 0; i < runs; ++i) TUTTI_RETURN_IF_ERROR(way.run());
    TUTTI_CUDA(cudaEventRecord(end->get(), stream));
    TUTTI_RETURN_IF_ERROR(wait_for(end->get()));
    float milliseconds = 0;
    TUTTI_CUDA(cudaEventElapsedTime(&milliseconds, begin->get(), end->get()));
    return static_cast<double>(milliseconds) * 1e-3 / runs;
  };
  TUTTI_RETURN_IF_ERROR(way.run());  // loads its code
  TUTTI_ASSIGN_OR_RETURN(const double once, time(1));
  if (once > 2 * best) return once;
  const double runs = kMeasuredSeconds / std::max(once, 1e-6);
  return time(static_cast<int>(std::clamp<double>(runs, kMinRuns, kMaxRuns)));
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
  Status failure;
  double best = std::numeric_limits<double>::infinity();
  std::size_t choice = ways.size();
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const auto seconds = measure(stream, ways[i], best);
    if (!seconds.ok()) {
      failure = seconds.status();
      continue;
    }
    if (*seconds >= best) continue;
    best = *seconds;
    choice = i;
  }
  if (choice == ways.size()) return failure;
  keep(key, ways[choice].name);
  return choice;
}

}  // namespace tutti::cuda
