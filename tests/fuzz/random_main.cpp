// Fuzzing without libFuzzer, for any compiler and any sanitizer:
//   fuzz_random SURFACE SECONDS [FOLDER]
// Changes seeds, and the files of FOLDER, at random; inputs whose errors are new are kept and
// changed further. The input at hand is in the file SURFACE.input while it runs, so that it is
// there after a crash.
//   fuzz_random SURFACE FILE
// runs one input.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "fuzz/change.h"

namespace tutti::fuzz {
namespace {

constexpr unsigned kMostSeconds = 20;  // of one input
constexpr std::size_t kMostBytes = 64 << 10;
constexpr std::size_t kMostInputs = 20000;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> starting_inputs(const Surface& surface, const char* folder) {
  std::vector<std::string> inputs = surface.seeds();
  if (folder == nullptr) return inputs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    inputs.push_back(read_file(entry.path()));
  }
  return inputs;
}

void run(const Surface& surface, const std::string& input) {
  const std::string name = str_cat(surface.name, ".input");
  std::ofstream(name, std::ios::binary) << input;
  alarm(kMostSeconds);
  surface.run(input);
  alarm(0);
}

int loop(const Surface& surface, int seconds, const char* folder) {
  std::vector<std::string> inputs = starting_inputs(surface, folder);
  std::set<std::string> known;
  std::mt19937 random(std::random_device{}());
  std::size_t runs = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    std::string input = inputs[random() % inputs.size()];
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      input = changed(surface, input, random);
    }
    if (input.size() > kMostBytes) continue;
    run(surface, input);
    ++runs;
    if (known.insert(last_errors()).second && inputs.size() < kMostInputs) {
      inputs.push_back(std::move(input));
    }
  }
  std::printf("%s: %zu inputs, %zu of them kept\n", std::string(surface.name).c_str(), runs,
              inputs.size());
  return 0;
}

}  // namespace
}  // namespace tutti::fuzz

int main(int argc, char** argv) {
  const std::string wanted = argc > 2 ? argv[1] : "";
  for (const tutti::fuzz::Surface& surface : tutti::fuzz::surfaces()) {
    if (surface.name != wanted) continue;
    if (const int seconds = std::atoi(argv[2]); seconds > 0) {
      return tutti::fuzz::loop(surface, seconds, argc > 3 ? argv[3] : nullptr);
    }
    tutti::fuzz::run(surface, tutti::fuzz::read_file(argv[2]));
    return 0;
  }
  std::fprintf(stderr, "usage: fuzz_random SURFACE SECONDS [FOLDER] | SURFACE FILE; surfaces are");
  for (const auto& surface : tutti::fuzz::surfaces()) {
    std::fprintf(stderr, " %s", std::string(surface.name).c_str());
  }
  std::fprintf(stderr, "\n");
  return 2;
}
