#include "server/classification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Classification, NothingHasNoClasses) {
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kFloat16}) {
    const auto classes = top_classes({}, dtype, 3);
    ASSERT_TRUE(classes.ok()) << classes.status().message();
    EXPECT_THAT(*classes, IsEmpty());
  }
}

TEST(Classification, LargestComeFirstWithTheirLabels) {
  const float scores[] = {0.5F, 2, -1};
  const std::string labels[] = {"cat", "", "dog"};
  const auto classes = top_classes(std::as_bytes(std::span(scores)), DType::kFloat32, 2, labels);
  ASSERT_TRUE(classes.ok()) << classes.status().message();
  EXPECT_THAT(*classes, ElementsAre("2.000000:1", "0.500000:0:cat"));
}

}  // namespace
}  // namespace tutti::server
