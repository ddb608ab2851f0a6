// Every seed, and every seed a little changed, through the fuzzers' own entry points: a surface
// that breaks its promises ends the process.
#include <gtest/gtest.h>

#include <random>

#include "fuzz/change.h"

namespace tutti::fuzz {
namespace {

class SurfacesTest : public ::testing::TestWithParam<Surface> {};

TEST_P(SurfacesTest, HoldsForItsSeedsAndForSeedsALittleChanged) {
  constexpr int kChanges = 40;
  const std::vector<std::string> seeds = GetParam().seeds();
  ASSERT_FALSE(seeds.empty());
  std::mt19937 random(1);
  for (const std::string& seed : seeds) {
    GetParam().run(seed);
    for (int i = 0; i < kChanges; ++i) GetParam().run(changed(GetParam(), seed, random));
  }
}

std::string name_of(const ::testing::TestParamInfo<Surface>& info) {
  return std::string(info.param.name);
}

INSTANTIATE_TEST_SUITE_P(All, SurfacesTest, ::testing::ValuesIn(surfaces()), name_of);

}  // namespace
}  // namespace tutti::fuzz
