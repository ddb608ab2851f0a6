// write_seeds FOLDER: the seeds of the surfaces that are linked in, as files FOLDER/SURFACE/seed_N.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "fuzz/surface.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_seeds FOLDER\n");
    return 2;
  }
  for (const tutti::fuzz::Surface& surface : tutti::fuzz::surfaces()) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / surface.name;
    std::filesystem::create_directories(folder);
    int count = 0;
    for (const std::string& seed : surface.seeds()) {
      std::ofstream(folder / tutti::str_cat("seed_", count++), std::ios::binary) << seed;
    }
    std::printf("%s: %d seeds\n", std::string(surface.name).c_str(), count);
  }
  return 0;
}
