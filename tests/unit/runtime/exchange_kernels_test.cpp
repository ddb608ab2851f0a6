// The CPU backend's exchange kernels inside whole plans: what comes out must be what went in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "fault.h"
#include "toy.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using toy::numbers;
using toy::values;

Result<TensorMap> infer(Plan plan, const TensorMap& inputs) {
  toy::ToyBackend backend;
  TUTTI_ASSIGN_OR_RETURN(const auto instance, Instance::load(std::move(plan), backend));
  return instance->infer(inputs);
}

class ExchangeKernels : public ::testing::TestWithParam<int> {
 protected:
  // "N" in the text is the number of ranks.
  Plan plan(std::string text) const {
    const std::string ranks = std::to_string(GetParam());
    for (std::size_t at = 0; (at = text.find('N', at)) != std::string::npos; ++at) {
      text.replace(at, 1, ranks);
    }
    return toy::plan_of("cp=" + ranks, text);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, ExchangeKernels, ::testing::Values(1, 2, 3, 4, 8));

TEST_P(ExchangeKernels, AllReduceCombinesWhatRanksHold) {
  const Tensor x = numbers({11}, 3);
  const auto outputs = infer(plan(R"(graph @g (%x: f32[n]) {
    %sum = AllReduce(%x) {axis = "cp", ranks = N, op = "sum"}
    %max = AllReduce(%x) {axis = "cp", ranks = N, op = "max"}
    return %sum, %max
  })"),
                             {{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  std::vector<float> sum = values(x);
  for (float& value : sum) value *= static_cast<float>(GetParam());
  EXPECT_EQ(values(outputs->at("sum")), sum);
  EXPECT_EQ(values(outputs->at("max")), values(x));
}

TEST_P(ExchangeKernels, ReduceScatterGivesEachRankItsPieceOfTheSum) {
  const Tensor x = numbers({2, 7, 3}, 3);
  const auto outputs = infer(plan(R"(graph @g (%x: f32[2, t, 3]) {
    %piece = ReduceScatter(%x) {axis = "cp", ranks = N, op = "sum", dim = 1, units = dims[t]}
    %sum = AllGather(%piece) {axis = "cp", ranks = N, dim = 1, units = dims[t], size = dims[t]}
    return %sum
  })"),
                             {{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  std::vector<float> sum = values(x);
  for (float& value : sum) value *= static_cast<float>(GetParam());
  EXPECT_EQ(values(outputs->at("sum")), sum);
}

TEST_P(ExchangeKernels, PiecesOfDifferentSizesAreGatheredTogether) {
  const Tensor x = numbers({2, 7, 3}, 3);
  const Tensor y = numbers({2, 5, 2}, 4);
  const auto outputs = infer(plan(R"(graph @g (%x: f32[2, t, 3], %y: f32[2, 5, 2]) {
    %xp = ShardSlice(%x) {axis = "cp", ranks = N, dim = 1, units = dims[t]}
    %yp = ShardSlice(%y) {axis = "cp", ranks = N, dim = 1, units = dims[5]}
    %xw, %yw = AllGather(%xp, %yp) {axis = "cp", ranks = N, dim = 1, units = dims[t, 5],
      size = dims[t, 5]}
    return %xw, %yw
  })"),
                             {{"x", x}, {"y", y}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(values(outputs->at("xw")), values(x));
  EXPECT_EQ(values(outputs->at("yw")), values(y));
}

TEST_P(ExchangeKernels, QueriesKeysAndValuesTravelTogetherAndComeBack) {
  const Tensor q = numbers({2, 5, 8, 3}, 1);
  const Tensor k = numbers({2, 5, 4, 3}, 2);
  // 8 query heads by ones, 4 key heads twice each: as many pieces of both.
  const auto outputs = infer(plan(R"(graph @g (%q: f32[b, t, 8, 3], %k: f32[b, t, 4, 3]) {
    %qs = ShardSlice(%q) {axis = "cp", ranks = N, dim = 1, units = dims[t]}
    %ks = ShardSlice(%k) {axis = "cp", ranks = N, dim = 1, units = dims[t]}
    %qh, %kh = AllToAll(%qs, %ks) {axis = "cp", ranks = N,
      from_dims = [1, 1], from_units = dims[t, t], from_replicas = [1, 1],
      to_dims = [2, 2], to_units = dims[8, 4], to_replicas = [1, 2], sizes = dims[t, t]}
    %qt, %kt = AllToAll(%qh, %kh) {axis = "cp", ranks = N,
      from_dims = [2, 2], from_units = dims[8, 4], from_replicas = [1, 2],
      to_dims = [1, 1], to_units = dims[t, t], to_replicas = [1, 1], sizes = dims[8, 4]}
    %qo = AllGather(%qt) {axis = "cp", ranks = N, dim = 1, units = dims[t], size = dims[t]}
    %ko = AllGather(%kt) {axis = "cp", ranks = N, dim = 1, units = dims[t], size = dims[t]}
    %kw = AllGather(%kh) {axis = "cp", ranks = N, dim = 2, units = dims[4], replicas = 2,
      size = dims[4]}
    return %qo, %ko, %kw
  })"),
                             {{"q", q}, {"k", k}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(values(outputs->at("qo")), values(q));
  EXPECT_EQ(values(outputs->at("ko")), values(k));
  EXPECT_EQ(values(outputs->at("kw")), values(k));
}

// Rows that move from rank to rank, and what stands behind the edges.
TEST_P(ExchangeKernels, HalosBringTheRowsThatWindowsRead) {
  const Tensor x = numbers({2, 5, 3}, 1);
  const std::vector<float> whole = values(x);
  const float lowest = -std::numeric_limits<float>::infinity();
  // Result row i is row i - 2, of 9.
  const std::map<std::string, std::vector<int>> rows = {{"zero", {-1, -1, 0, 1, 2, 3, 4, -1, -1}},
                                                        {"lowest", {-1, -1, 0, 1, 2, 3, 4, -1, -1}},
                                                        {"edge", {0, 0, 0, 1, 2, 3, 4, 4, 4}},
                                                        {"reflect", {2, 1, 0, 1, 2, 3, 4, 3, 2}},
                                                        {"wrap", {3, 4, 0, 1, 2, 3, 4, 0, 1}}};
  for (const auto& [edge, expected] : rows) {
    const std::string windows =
        R"(axis = "cp", ranks = N, dim = 1, size = dims[t], rows = dims[t+4],
      units = dims[t+4], stride = 1, offset = dims[-2], extent = 1, edge = ")" +
        edge + "\"";
    const auto outputs = infer(plan(R"(graph @g (%x: f32[2, t, 3]) {
      %piece = ShardSlice(%x) {axis = "cp", ranks = N, dim = 1, units = dims[t]}
      %h = Halo(%piece) {from_units = dims[t], )" +
                                    windows +
                                    R"(}
      %s = WindowSlice(%x) {)" + windows +
                                    R"(}
      %from_pieces = AllGather(%h) {axis = "cp", ranks = N, dim = 1, units = dims[t+4],
        size = dims[t+4]}
      %from_whole = AllGather(%s) {axis = "cp", ranks = N, dim = 1, units = dims[t+4],
        size = dims[t+4]}
      return %from_pieces, %from_whole
    })"),
                               {{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    std::vector<float> right;
    for (std::size_t outer = 0; outer < 2; ++outer) {
      for (const int row : expected) {
        for (std::size_t i = 0; i < 3; ++i) {
          right.push_back(row >= 0 ? whole[(outer * 5 + static_cast<std::size_t>(row)) * 3 + i]
                          : edge == "zero" ? 0
                                           : lowest);
        }
      }
    }
    EXPECT_EQ(values(outputs->at("from_pieces")), right) << edge;
    EXPECT_EQ(values(outputs->at("from_whole")), right) << edge;
  }
}

TEST(ExchangeKernelsOnTwoAxes, EachExchangeStaysOnItsAxis) {
  const Tensor x = numbers({3, 7, 2}, 1);
  const auto outputs = infer(toy::plan_of("cfg=2,cp=3", R"(graph @g (%x: f32[b, t, 2]) {
    %xb = ShardSlice(%x) {axis = "cfg", ranks = 2, dim = 0, units = dims[b]}
    %xt = ShardSlice(%xb) {axis = "cp", ranks = 3, dim = 1, units = dims[t]}
    %y = Affine(%xt)
    %yb = AllGather(%y) {axis = "cp", ranks = 3, dim = 1, units = dims[t], size = dims[t]}
    %whole = AllGather(%yb) {axis = "cfg", ranks = 2, dim = 0, units = dims[b], size = dims[b]}
    return %whole
  })"),
                             {{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  std::vector<float> expected = values(x);
  for (float& value : expected) value = 2 * value + 1;
  EXPECT_EQ(values(outputs->at("whole")), expected);
}

TEST(ExchangeKernelErrors, NameTheAxisAndTheNumbers) {
  const auto error = [](const std::string& mesh, const std::string& attributes) {
    return infer(toy::plan_of(mesh, "graph @g (%x: f32[4]) {\n  %y = AllReduce(%x) {" + attributes +
                                        "}\n  return %y\n}"),
                 {{"x", numbers({4}, 1)}})
        .status()
        .message();
  };
  EXPECT_THAT(error("cp=2", R"(axis = "tp", ranks = 2, op = "sum")"),
              HasSubstr("mesh axis 'tp' is unknown here; the axes are [cp]"));
  EXPECT_THAT(error("cp=2", R"(axis = "cp", ranks = 4, op = "sum")"),
              HasSubstr("mesh axis 'cp' has 2 ranks here, expected 4"));
}

}  // namespace
}  // namespace tutti
