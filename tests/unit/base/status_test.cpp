#include "base/status.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return invalid_argument("n ", n, " is odd");
  return n / 2;
}

Result<int> quarter(int n) {
  TUTTI_ASSIGN_OR_RETURN(const int h, half(n));
  TUTTI_ASSIGN_OR_RETURN(const int q, half(h));
  return q;
}

TEST(Status, PropagatesTheFirstErrorThroughTheMacro) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().message(), "n 3 is odd");
  EXPECT_EQ(quarter(5).status().code(), StatusCode::kInvalidArgument);
}

TEST(Status, ContextGoesInFrontAndKeepsTheCode) {
  const Status status = not_found("file 'x'").with_context("plan").with_context("model 'm'");
  EXPECT_EQ(status.to_string(), "NOT_FOUND: model 'm': plan: file 'x'");
  EXPECT_TRUE(Status().with_context("anything").ok());
}

TEST(StrCat, WritesNumbersSoThatTheyReadBack) {
  EXPECT_EQ(str_cat(1.5, " ", 0.1F, " ", true, " ", std::vector<int>{1, 2}),
            "1.5 0.10000000149011612 true [1, 2]");
}

}  // namespace
}  // namespace tutti
