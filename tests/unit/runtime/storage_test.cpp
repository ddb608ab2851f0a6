#include "runtime/storage.h"

#include <gmock/gmock.h>

#include "graph/builder.h"
#include "ops/lowering.h"

namespace tutti {
namespace {

// [h] seen as [h//2, 2], which the compiler accepts and only even sizes satisfy.
class PairsTest : public testing::Test {
 protected:
  PairsTest() {
    register_all_ops(&ops_, &lowerings_);
    GraphBuilder builder(&graph_, &ops_);
    const Dim h = Dim::symbol("h");
    builder.set_name("pairs");
    Value* input = graph_.add_input("x", {DType::kFloat32, {h}});
    graph_.add_output(builder.reshape(input, {floor_div(h, 2), 2}));
    EXPECT_TRUE(builder.status().ok()) << builder.status().to_string();
  }
  OpRegistry ops_;
  LoweringRegistry lowerings_;
  Graph graph_;
};

TEST_F(PairsTest, AViewOfAsManyElementsIsFine) {
  const auto described = describe_values(graph_, {{"h", 6}});
  ASSERT_TRUE(described.ok()) << described.status().to_string();
  EXPECT_EQ(described->at(graph_.outputs()[0]).dims, (Dims{3, 2}));
}

TEST_F(PairsTest, AViewThatDoesNotFitItsInputIsRefused) {
  const Status status = describe_values(graph_, {{"h", 5}}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr("'pairs'"));
  EXPECT_THAT(status.message(), testing::HasSubstr("shape [5] has 5 elements"));
}

}  // namespace
}  // namespace tutti
