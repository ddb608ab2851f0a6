#pragma once

#include <filesystem>

// Where tests find files of the repository, wherever the test binary runs.
namespace tutti::test {

std::filesystem::path source_dir();
std::filesystem::path data_dir();  // tests/data

}  // namespace tutti::test
