#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "support/temp_folder.h"

namespace tutti {
namespace {

TEST(MappedFile, SlicesInsideTheFileOnly) {
  const test::TempFolder folder;
  const std::string path = folder.file("digits");
  std::ofstream(path) << "0123456789";
  const auto file = *MappedFile::open(path);
  EXPECT_EQ(file->slice(2, 3)->size(), 3U);
  EXPECT_EQ(static_cast<char>((*file->slice(2, 3))[0]), '2');
  EXPECT_TRUE(file->slice(10, 0).ok());
  EXPECT_FALSE(file->slice(10, 1).ok());
  EXPECT_FALSE(file->slice(11, 0).ok());
  // Sum past 2^64: must not wrap around.
  EXPECT_FALSE(file->slice(8, std::numeric_limits<std::uint64_t>::max() - 4).ok());
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  EXPECT_EQ(MappedFile::open("/nowhere/at/all").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::open("/tmp").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti
