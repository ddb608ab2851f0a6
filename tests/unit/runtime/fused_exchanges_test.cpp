#include "runtime/fused_exchanges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/printer.h"
#include "support/core_ops.h"

namespace tutti {
namespace {

using testing::ElementsAre;

// By position: 0 a slice of the input, 1 queries, 2 another name for them, 3 keys, 4 a product,
// 5 the exchange.
constexpr const char* kLayer = R"(graph (%x: f32[1, t, 32], %w: f32[32, 32]) {
    %p = ShardSlice(%x) {axis = "cp", ranks = 2, dim = 1, units = dims[t]}
    %q = Exp(%p)
    %qh = Reshape(%q) {shape = dims[1, part(t,2,rank.cp), 4, 8]}
    %k = Neg(%p)
    %v = MatMul(%p, %w)
    %a, %b, %c = AllToAll(%qh, %k, %v) {axis = "cp", ranks = 2, from_dims = [1, 1, 1],
      from_units = dims[t, t, t], from_replicas = [1, 1, 1], to_dims = [2, 2, 2],
      to_units = dims[4, 4, 4], to_replicas = [1, 1, 1], sizes = dims[t, t, t]}
    return %a, %b, %c
  })";

std::unique_ptr<Graph> parsed(std::string text, const std::string& from = "",
                              const std::string& to = "") {
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  auto graph = parse_graph(text, test::core_ops());
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return *std::move(graph);
}

TEST(FusedExchanges, HoldWhatComputesTheirOperandsAlone) {
  const auto graph = parsed(kLayer);
  const std::vector<JoinedNodes> found = find_fused_exchanges(*graph);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].positions, ElementsAre(1, 2, 3, 5));
  EXPECT_EQ(found[0].at, 5U);
  EXPECT_EQ(found[0].node().type(), "FusedExchange");
  std::vector<std::string> names;
  for (const Value* input : found[0].inputs) names.push_back(input->name());
  for (const Value* output : found[0].outputs) names.push_back(output->name());
  EXPECT_THAT(names, ElementsAre("p", "v", "a", "b", "c"));
  EXPECT_TRUE(found[0].graph->verify().ok()) << print(*found[0].graph);
  // The node survives the way into a plug-in.
  const auto again = parse_graph(print(*found[0].graph), test::core_ops());
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(print(**again), print(*found[0].graph));
}

TEST(FusedExchanges, LeaveOutWhatOthersRead) {
  const auto positions = [](const std::string& from, const std::string& to) {
    const auto graph = parsed(kLayer, from, to);
    const std::vector<JoinedNodes> found = find_fused_exchanges(*graph);
    return found.empty() ? std::vector<std::size_t>() : found[0].positions;
  };
  EXPECT_THAT(positions("return %a", "return %q, %a"), ElementsAre(2, 3, 5));
  EXPECT_THAT(positions("return %a", "return %k, %a"), ElementsAre(1, 2, 5));
  // One operand read by what computes another, and one that is exchanged twice.
  EXPECT_THAT(positions("%k = Neg(%p)", "%k = Neg(%q)"), ElementsAre(2, 3, 5));
  EXPECT_THAT(positions("AllToAll(%qh, %k, %v)", "AllToAll(%qh, %k, %k)"), ElementsAre(1, 2, 5));
}

TEST(FusedExchanges, AreNotThereWhereNothingIsComputed) {
  const auto graph = parsed(kLayer, "AllToAll(%qh, %k, %v)", "AllToAll(%p, %p, %v)");
  EXPECT_TRUE(find_fused_exchanges(*graph).empty());
}

}  // namespace
}  // namespace tutti
