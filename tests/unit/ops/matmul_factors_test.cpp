// Layout rules, types and costs of MatMul, Linear, Conv and the norms.
#include <gtest/gtest.h>

#include "core_node.h"

namespace tutti {
namespace {

using Inputs = std::vector<std::string>;

TEST(MatMulFactors, PassBatchRowsAndColumnsAndReduceTheInner) {
  CoreNode node("MatMul", {"f32[b, 8, m, k]", "f32[b, 8, k, n]"});
  EXPECT_EQ(node.type(), "f32[b, 8, m, n]");
  EXPECT_EQ(node.factors(), "(d0 d1 d2 k+),(d0 d1 k+ d3)->(d0 d1 d2 d3)");
  EXPECT_EQ(node.flops(), "16*b*k*m*n");
}

TEST(MatMulFactors, GiveNoFactorToWhatBroadcasts) {
  CoreNode node("MatMul", {"f32[b, 1, m, 16]", "f32[8, 16, 4]"});
  EXPECT_EQ(node.type(), "f32[b, 8, m, 4]");
  EXPECT_EQ(node.factors(), "(d0 1 d2 k+),(d1 k+ d3)->(d0 d1 d2 d3)");
}

TEST(MatMulFactors, KeepAnInnerSizeWholeThatMayDiffer) {
  CoreNode node("MatMul", {"f32[4, p]", "f32[q, 8]"});
  EXPECT_EQ(node.factors(), "(d0 k!),(k2! d1)->(d0 d1)");
}

TEST(MatMulTypes, NameSizesThatDisagree) {
  EXPECT_EQ(CoreNode("MatMul", {"f32[4, 5]", "f32[6, 8]"}).error(),
            "inner sizes differ: f32[4, 5] has 5 columns, f32[6, 8] has 6 rows");
  EXPECT_EQ(CoreNode("MatMul", {"f32[4, 5]", "f64[5, 8]"}).error(),
            "operands have element types f32 and f64; expected one type");
  EXPECT_EQ(CoreNode("MatMul", {"f32[4]", "f32[4, 8]"}).error(),
            "operands f32[4] and f32[4, 8] of a matrix product need two dimensions or more");
}

TEST(LinearFactors, ReduceOnlyWhereNothingIsAddedAfterwards) {
  EXPECT_EQ(CoreNode("Linear", {"f32[b, t, 64]", "f32[64, 32]"}).factors(),
            "(d0 d1 k+),(k+ d2)->(d0 d1 d2)");
  EXPECT_EQ(CoreNode("Linear", {"f32[b, t, 64]", "f32[64, 32]", "f32[32]"}).factors(),
            "(d0 d1 k!),(k! d2),(d2)->(d0 d1 d2)");
  EXPECT_EQ(CoreNode("Linear", {"f32[t, 64]", "f32[32, 64]", "", "f32[t, 32]"},
                     {{"transpose_w", std::int64_t{1}}})
                .factors(),
            "(d0 k!),(d1 k!),(),(d0 d1)->(d0 d1)");
  EXPECT_EQ(CoreNode("Linear", {"f32[t, 64]", "f32[64, 32]"}, {{"activation", std::string("silu")}})
                .factors(),
            "(d0 k!),(k! d1)->(d0 d1)");
}

TEST(LinearTypes, RefuseUnknownActivations) {
  EXPECT_EQ(CoreNode("Linear", {"f32[t, 64]", "f32[64, 32]"}, {{"activation", std::string("sine")}})
                .error(),
            "activation 'sine' is unknown; expected relu, gelu, gelu_tanh, silu, sigmoid or tanh");
}

TEST(ConvFactors, PassBatchAndOutputChannelsAndReadSpaceThroughWindows) {
  CoreNode node("Conv", {"f32[n, 16, h, w]", "f32[32, 16, 3, 3]"},
                {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
  EXPECT_EQ(node.type(), "f32[n, 32, h, w]");
  EXPECT_EQ(node.factors(), "(n c+ x2! x3!),(o c+ k0! k1!)->(n o y2~ y3~)");
  EXPECT_EQ(node.flops(), "9216*h*n*w");
}

TEST(ConvFactors, PassGroupsOfChannels) {
  EXPECT_EQ(
      CoreNode("Conv", {"f32[n, 16, 9]", "f32[32, 8, 1]"}, {{"group", std::int64_t{2}}}).factors(),
      "(n (g c!) y2),((g o!) w! 1)->(n (g o!) y2)");
  EXPECT_EQ(
      CoreNode("Conv", {"f32[n, 16, 9]", "f32[16, 1, 1]", "f32[16]"}, {{"group", std::int64_t{16}}})
          .factors(),
      "(n g y2),(g 1 1),(g)->(n g y2)");
  EXPECT_EQ(
      CoreNode("ConvTranspose", {"f32[n, 16, 9]", "f32[16, 3, 1]"}, {{"group", std::int64_t{4}}})
          .factors(),
      "(n (g c!) y2),((g c!) w! 1)->(n (g o!) y2)");
}

TEST(ConvFactors, KeepBiasedSumsWhole) {
  EXPECT_EQ(CoreNode("Conv", {"f32[n, 16, 9]", "f32[32, 16, 1]", "f32[32]"}).factors(),
            "(n c! y2),(o c! 1),(o)->(n o y2)");
}

TEST(ConvTypes, CountOutputPositions) {
  const AttributeMap strided{{"strides", std::vector<std::int64_t>{2}},
                             {"dilations", std::vector<std::int64_t>{2}}};
  EXPECT_EQ(CoreNode("Conv", {"f32[1, 4, 20]", "f32[8, 4, 3]"}, strided).type(), "f32[1, 8, 8]");
  EXPECT_EQ(CoreNode("ConvTranspose", {"f32[1, 4, w]", "f32[4, 8, 4]"},
                     {{"strides", std::vector<std::int64_t>{2}},
                      {"pads", std::vector<std::int64_t>{1, 1}}})
                .type(),
            "f32[1, 8, 2*w]");
  EXPECT_EQ(CoreNode("Conv", {"f32[1, 4, 2]", "f32[8, 4, 5]"}).error(),
            "input f32[1, 4, 2] is smaller than the kernel: an output size would be -2");
  EXPECT_EQ(CoreNode("Conv", {"f32[1, 4, 9]", "f32[8, 3, 5]"}).error(),
            "weight f32[8, 3, 5] with group 1 does not fit input f32[1, 4, 9]");
}

TEST(ResizeFactors, ARowThatIsRepeatedPasses) {
  CoreNode node("Resize", {"f32[n, c, 8, w]"},
                {{"axes", std::vector<std::int64_t>{2}}, {"sizes", Shape{Dim(16)}}});
  EXPECT_EQ(node.type(), "f32[n, c, 16, w]");
  EXPECT_EQ(node.factors(), "(d0 d1 y2 d3)->(d0 d1 (y2 r2!) d3)");
}

TEST(PoolTypes, RoundUpOnlyToWindowsThatStartInside) {
  const AttributeMap ceil{{"kind", std::string("max")},
                          {"kernel_shape", std::vector<std::int64_t>{1}},
                          {"strides", std::vector<std::int64_t>{2}},
                          {"ceil_mode", std::int64_t{1}}};
  EXPECT_EQ(CoreNode("Pool", {"f32[1, 1, 4]"}, ceil).type(), "f32[1, 1, 2]");
  EXPECT_EQ(CoreNode("Pool", {"f32[1, 1, 5]"}, ceil).type(), "f32[1, 1, 3]");
}

TEST(NormFactors, KeepWhatTheyNormaliseWhole) {
  EXPECT_EQ(CoreNode("LayerNormalization", {"f32[b, t, 64]", "f32[64]", "f32[64]"},
                     {{"axis", std::int64_t{2}}, {"epsilon", 1e-5}})
                .factors(),
            "(d0 d1 d2!),(d2!),(d2!)->(d0 d1 d2!)");
  EXPECT_EQ(CoreNode("RMSNormalization", {"f32[b, t, 8, 32]", "f32[32]"},
                     {{"axis", std::int64_t{3}}, {"epsilon", 1e-5}})
                .factors(),
            "(d0 d1 d2 d3!),(d3!)->(d0 d1 d2 d3!)");
  EXPECT_EQ(CoreNode("GroupNorm", {"f32[n, 8, h]", "f32[8]"},
                     {{"groups", std::int64_t{2}}, {"epsilon", 1e-5}})
                .factors(),
            "(d0 d1! d2!),(d1!)->(d0 d1! d2!)");
  EXPECT_EQ(CoreNode("Softmax", {"f32[b, h, s, t]"}, {{"axis", std::int64_t{3}}}).factors(),
            "(d0 d1 d2 d3!)->(d0 d1 d2 d3!)");
}

TEST(NormTypes, NameParametersThatDoNotFit) {
  EXPECT_EQ(CoreNode("LayerNormalization", {"f32[b, 64]", "f32[32]"},
                     {{"axis", std::int64_t{1}}, {"epsilon", 1e-5}})
                .error(),
            "scale is f32[32]; expected f32[64]");
  EXPECT_EQ(
      CoreNode("GroupNorm", {"f32[n, 9, h]"}, {{"groups", std::int64_t{2}}, {"epsilon", 1e-5}})
          .error(),
      "attribute 'groups' is 2, which does not divide the 9 channels of f32[n, 9, h]");
}

}  // namespace
}  // namespace tutti
