// Layout rule, types and cost of Attention.
#include <gtest/gtest.h>

#include "core_node.h"

namespace tutti {
namespace {

AttributeMap options(std::string layout, bool is_causal = false) {
  return {{"scale", 0.125}, {"layout", std::move(layout)}, {"is_causal", std::int64_t{is_causal}}};
}

TEST(AttentionFactors, PassBatchHeadsAndQueriesWithHeadsFirst) {
  CoreNode node("Attention", {"f32[b, 8, s, 64]", "f32[b, 4, t, 64]", "f32[b, 4, t, 32]"},
                options("bhsd"));
  EXPECT_EQ(node.type(), "f32[b, 8, s, 32]");
  EXPECT_EQ(node.factors(), "(b (g r) s d!),(b g t! d!),(b g t! e!)->(b (g r) s e!)");
  EXPECT_EQ(node.flops(), "1536*b*s*t");
}

TEST(AttentionFactors, PassTheSameWithTokensFirst) {
  CoreNode node("Attention", {"f32[b, s, 8, 64]", "f32[b, t, 4, 64]", "f32[b, t, 4, 64]"},
                options("bshd"));
  EXPECT_EQ(node.type(), "f32[b, s, 8, 64]");
  EXPECT_EQ(node.factors(), "(b s (g r) d!),(b t! g d!),(b t! g e!)->(b s (g r) e!)");
}

TEST(AttentionFactors, KeepCausalQueriesWholeOnlyWhereKeyLengthsSayWhereTheyStand) {
  const std::vector<std::string> qkv(3, "f32[b, 2, s, 4]");
  EXPECT_EQ(CoreNode("Attention", qkv, options("bhsd", true)).factors(),
            "(b g s d!),(b g t! d!),(b g t! e!)->(b g s e!)");
  EXPECT_EQ(CoreNode("Attention", {qkv[0], qkv[1], qkv[2], "", "i64[b]"}, options("bhsd", true))
                .factors(),
            "(b g s! d!),(b g t! d!),(b g t! e!),(),(b)->(b g s! e!)");
}

TEST(AttentionFactors, GiveMasksFactorsWhereTheyDoNotBroadcast) {
  const std::vector<std::string> qkv{"f32[b, 8, s, 4]", "f32[b, 4, t, 4]", "f32[b, 4, t, 4]"};
  const auto factors = [&](const std::string& mask, const std::string& lengths = "") {
    std::vector<std::string> inputs = qkv;
    inputs.push_back(mask);
    if (!lengths.empty()) inputs.push_back(lengths);
    const std::string text = CoreNode("Attention", inputs, options("bhsd")).factors();
    const std::string before = "(b (g r) s d!),(b g t! d!),(b g t! e!),";
    EXPECT_EQ(text.substr(0, before.size()), before);
    return text.substr(before.size(), text.find("->") - before.size());
  };
  EXPECT_EQ(factors("bool[b, 1, 1, t]"), "(b 1 1 t!)");
  EXPECT_EQ(factors("f32[1, 8, s, t]"), "(1 (g r) s t!)");
  EXPECT_EQ(factors("f32[s, t]"), "(s t!)");
  EXPECT_EQ(factors("", "i64[b]"), "(),(b)");
}

TEST(AttentionTypes, NameOperandsThatDoNotFit) {
  const auto error = [](std::vector<std::string> inputs) {
    return CoreNode("Attention", std::move(inputs), options("bhsd")).error();
  };
  EXPECT_EQ(error({"f32[1, 6, 5, 4]", "f32[1, 4, 7, 4]", "f32[1, 4, 7, 4]"}),
            "query heads are no multiple of the key/value heads: q is f32[1, 6, 5, 4], k is f32[1, "
            "4, 7, 4], "
            "v is f32[1, 4, 7, 4], layout bhsd");
  EXPECT_EQ(error({"f32[1, 4, 5, 4]", "f32[1, 4, 7, 8]", "f32[1, 4, 7, 8]"}),
            "q and k differ in head size: q is f32[1, 4, 5, 4], k is f32[1, 4, 7, 8], v is f32[1, "
            "4, 7, 8], "
            "layout bhsd");
  EXPECT_EQ(error({"f32[1, 4, 5, 4]", "f32[1, 4, 7, 4]", "f32[1, 4, 7, 4]", "f32[2, 7]"}),
            "mask f32[2, 7] does not broadcast to [batch, heads, queries, keys] [1, 4, 5, 7]");
  EXPECT_EQ(error({"f32[1, 4, 5, 4]", "f32[1, 4, 7, 4]", "f32[1, 4, 7, 4]", "i32[5, 7]"}),
            "mask is i32[5, 7]; expected bool or f32");
}

}  // namespace
}  // namespace tutti
