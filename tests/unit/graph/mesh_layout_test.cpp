#include <gtest/gtest.h>

#include "graph/layout.h"

namespace tutti {
namespace {

TEST(Mesh, LastAxisVariesFastest) {
  const Mesh mesh = *Mesh::parse("cfg=2,cp=4");
  EXPECT_EQ(mesh.num_ranks(), 8);
  EXPECT_EQ(mesh.coordinate(6, 0), 1);
  EXPECT_EQ(mesh.coordinate(6, 1), 2);
  EXPECT_EQ(mesh.peers(6, 0), (std::vector<int>{2, 6}));
  EXPECT_EQ(mesh.peers(6, 1), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(mesh.to_string(), "cfg=2,cp=4");
}

TEST(Mesh, RefusesWhatIsNoMesh) {
  for (const char* text : {"cp", "cp=", "cp=0", "cp=-1", "cp=2x", "=2", "cp=2,cp=2", "cp=2,",
                           "1a=2", "cp=99999", "a b=2"}) {
    EXPECT_FALSE(Mesh::parse(text).ok()) << text;
  }
  EXPECT_EQ(Mesh::parse("")->num_ranks(), 1);
}

TEST(Layout, LocalShapesAddUpToTheWhole) {
  const Mesh mesh = *Mesh::parse("cp=3");
  Layout layout;
  layout.set({.dim = 1, .axis = 0, .units = Dim(8)});
  const Shape local = local_shape({2, 512, 4}, layout, mesh);
  std::vector<std::int64_t> sizes;
  for (int rank = 0; rank < 3; ++rank) {
    SymbolMap symbols;
    mesh.bind(rank, &symbols);
    sizes.push_back((*evaluate(local, symbols))[1]);
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{192, 192, 128}));
}

TEST(Layout, ReplicasGiveNeighbouringRanksTheSameUnit) {
  const Mesh mesh = *Mesh::parse("cp=8");
  Layout layout;
  layout.set({.dim = 0, .axis = 0, .units = Dim(4), .replicas = 2});
  EXPECT_TRUE(local_shape({4, 64}, layout, mesh)[0].is(1));
  EXPECT_EQ(layout.to_string({4, 64}, mesh), "[4/cp(units 4, x2), 64]");
}

TEST(Layout, SplitsOfOneDimensionNest) {
  const Mesh mesh = *Mesh::parse("tp=2,cp=3");
  Layout layout;
  layout.set({.dim = 0, .axis = 0, .units = Dim(7)});
  const Dim outer = local_shape({7}, layout, mesh)[0];
  layout.set({.dim = 0, .axis = 1, .units = outer});
  std::vector<std::int64_t> sizes;
  for (int rank = 0; rank < 6; ++rank) {
    SymbolMap symbols;
    mesh.bind(rank, &symbols);
    sizes.push_back((*evaluate(local_shape({7}, layout, mesh), symbols))[0]);
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2, 1, 1, 1, 1, 1}));  // 4 and 3, each over three
  EXPECT_EQ(layout.to_string({7}, mesh), "[7/tp/cp]");
}

TEST(Layout, SegmentsAreCutEachByItself) {
  const Mesh mesh = *Mesh::parse("cp=2");
  Layout layout;
  layout.set({.dim = 0, .axis = 0, .units = Dim(8), .segments = {3, 5}});
  std::vector<std::int64_t> sizes;
  for (int rank = 0; rank < 2; ++rank) {
    SymbolMap symbols;
    mesh.bind(rank, &symbols);
    sizes.push_back((*evaluate(local_shape({8}, layout, mesh), symbols))[0]);
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2 + 3, 1 + 2}));
  EXPECT_EQ(layout.to_string({8}, mesh), "[8/cp(3 | 5)]");

  // Three heads of two features, and five features of something else.
  layout.set({.dim = 0, .axis = 0, .units = Dim(11), .segments = {6, 5}, .grains = {2, 1}});
  sizes.clear();
  for (int rank = 0; rank < 2; ++rank) {
    SymbolMap symbols;
    mesh.bind(rank, &symbols);
    sizes.push_back((*evaluate(local_shape({11}, layout, mesh), symbols))[0]);
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4 + 3, 2 + 2}));
  EXPECT_EQ(layout.to_string({11}, mesh), "[11/cp(6 by 2 | 5)]");
}

TEST(Layout, OneSplitAnAxis) {
  Layout layout;
  layout.set({.dim = 1, .axis = 0, .units = Dim(8)});
  layout.set({.dim = 2, .axis = 0, .units = Dim(4)});
  ASSERT_EQ(layout.splits.size(), 1U);
  EXPECT_EQ(layout.on_axis(0)->dim, 2);
  layout.remove_axis(0);
  EXPECT_TRUE(layout.is_replicated());
}

}  // namespace
}  // namespace tutti
