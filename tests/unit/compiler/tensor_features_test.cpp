// Features that the tensor strategy splits between products which are no plain matrices of an MLP:
// channels of convolutions, heads of linear attentions, key heads on several ranks.
#include <gmock/gmock.h>

#include "tensor_fixture.h"

namespace tutti {
namespace {

using TensorFeaturesTest = TensorTest;

// An inverted bottleneck: channels made, convolved each by itself, gated, and summed over.
const std::string kGatedConvolutions = R"(graph @g (%x: f32[b, 16, 5, 7]) {
    %uw = constant f32[48, 16, 1, 1] data
    %ub = constant f32[48] data
    %dw = constant f32[48, 1, 3, 3] data
    %db = constant f32[48] data
    %pw = constant f32[16, 24, 1, 1] data
    %u = Conv(%x, %uw, %ub)
    %s = Silu(%u)
    %d = Conv(%s, %dw, %db) {group = 48, pads = [1, 1, 1, 1]}
    %v, %g = Split(%d) {axis = 1, sizes = dims[24, 24]}
    %h = Silu(%g)
    %m = Mul(%v, %h)
    %p = Conv(%m, %pw)
    %y = Add(%x, %p)
    return %y
  })";

TEST_F(TensorFeaturesTest, ChannelsOfGatedConvolutionsArePairedAsFeaturesAre) {
  const std::string& text = kGatedConvolutions;
  const double whole = compile_text(text, tensor("")).memory[0].weights;
  for (const int ranks : {2, 3, 4}) {
    const std::string mesh = str_cat("tp=", ranks);
    const auto model = compile_text(text, tensor(mesh));
    EXPECT_EQ(kinds(model), (Kinds{{"AllReduce tp", 1}})) << model.explain;
    for (const RankBytes& rank : model.memory) EXPECT_NEAR(rank.weights, whole / ranks, 100);
    const NamedTensors tensors = {{"x", random_f32({2, 16, 5, 7}, 1)}};
    expect_one_rank_result(model, text, tensors, {{"b", 2}}, mesh);
  }
}

// A number of groups is an attribute, the same on all ranks: 24 channels are none for 5.
TEST_F(TensorFeaturesTest, ChannelsThatRanksDoNotDivideStayWhole) {
  const std::string& text = kGatedConvolutions;
  const auto model = compile_text(text, tensor("tp=5"));
  const NamedTensors tensors = {{"x", random_f32({1, 16, 5, 7}, 1)}};
  expect_one_rank_result(model, text, tensors, {{"b", 1}}, "tp=5");
}

// Two channels of each group go together.
TEST_F(TensorFeaturesTest, GroupsOfChannelsAreSharedOutWhole) {
  const std::string text = R"(graph @g (%x: f32[b, 16, 9]) {
    %uw = constant f32[32, 16, 1] data
    %gw = constant f32[48, 8, 3] data
    %gb = constant f32[48] data
    %pw = constant f32[16, 48, 1] data
    %u = Conv(%x, %uw)
    %g = Conv(%u, %gw, %gb) {group = 4, pads = [1, 1]}
    %r = Relu(%g)
    %y = Conv(%r, %pw)
    return %y
  })";
  const double whole = compile_text(text, tensor("")).memory[0].weights;
  for (const int ranks : {2, 4}) {
    const std::string mesh = str_cat("tp=", ranks);
    const auto model = compile_text(text, tensor(mesh));
    EXPECT_EQ(kinds(model), (Kinds{{"AllReduce tp", 1}})) << model.explain;
    EXPECT_NEAR(model.memory[0].weights, whole / ranks, 10);
    expect_one_rank_result(model, text, {{"x", random_f32({2, 16, 9}, 1)}}, {{"b", 2}}, mesh);
  }
}

// Products of features with each other work head by head, and a norm over all of them in front
// of that reduces a number a token.
TEST_F(TensorFeaturesTest, LinearAttentionTakesHeads) {
  const std::string text = R"(graph @g (%x: f32[b, t, 32]) {
    %qw = constant f32[32, 32] data
    %kw = constant f32[32, 32] data
    %vw = constant f32[32, 32] data
    %ow = constant f32[32, 32] data
    %qs = constant f32[32] data
    %ks = constant f32[32] data
    %qm = MatMul(%x, %qw)
    %km = MatMul(%x, %kw)
    %vm = MatMul(%x, %vw)
    %qn = RMSNormalization(%qm, %qs) {axis = 2, epsilon = 0.001}
    %kn = RMSNormalization(%km, %ks) {axis = 2, epsilon = 0.001}
    %qr = Relu(%qn)
    %kr = Relu(%kn)
    %qh = Reshape(%qr) {shape = dims[b, t, 4, 8]}
    %kh = Reshape(%kr) {shape = dims[b, t, 4, 8]}
    %vh = Reshape(%vm) {shape = dims[b, t, 4, 8]}
    %q = Transpose(%qh) {perm = [0, 2, 1, 3]}
    %k = Transpose(%kh) {perm = [0, 2, 3, 1]}
    %v = Transpose(%vh) {perm = [0, 2, 1, 3]}
    %state = MatMul(%k, %v)
    %a = MatMul(%q, %state)
    %at = Transpose(%a) {perm = [0, 2, 1, 3]}
    %af = Reshape(%at) {shape = dims[b, t, 32]}
    %y = MatMul(%af, %ow)
    return %y
  })";
  const double whole = compile_text(text, tensor("")).memory[0].weights;
  for (const std::string_view mesh : {"tp=2", "tp=3", "tp=4", "tp=2,cp=2"}) {
    const auto model = compile_text(text, tensor(mesh));
    Kinds found = kinds(model);
    EXPECT_EQ(found["AllReduce tp"], 2) << model.explain;
    EXPECT_EQ(found["AllGather tp"], 0) << model.explain;
    if (mesh != "tp=3") {
      const int ranks = model.mesh.size(model.mesh.find("tp"));
      EXPECT_NEAR(model.memory[0].weights, whole / ranks, 10) << mesh;
    }
    const NamedTensors tensors = {{"x", random_f32({2, 5, 32}, 1)}};
    expect_one_rank_result(model, text, tensors, {{"b", 2}, {"t", 5}}, mesh);
  }
}

// Triangle multiplication: pairs of tokens multiply feature by feature, and the norm over the
// features in front of the product that sums over them reduces a number or two a pair.
TEST_F(TensorFeaturesTest, PairsMultiplyInPiecesOfTheirFeatures) {
  const auto text_of = [](std::string_view norm) {
    return str_cat(R"(graph @g (%x: f32[b, n, n, 24]) {
    %aw = constant f32[24, 12] data
    %ag = constant f32[24, 12] data
    %bw = constant f32[24, 12] data
    %bg = constant f32[24, 12] data
    %ow = constant f32[12, 24] data
    %s = constant f32[12] data
    %am = MatMul(%x, %aw)
    %an = MatMul(%x, %ag)
    %as = Sigmoid(%an)
    %a = Mul(%am, %as)
    %bm = MatMul(%x, %bw)
    %bn = MatMul(%x, %bg)
    %bs = Sigmoid(%bn)
    %b = Mul(%bm, %bs)
    %at = Transpose(%a) {perm = [0, 3, 1, 2]}
    %bt = Transpose(%b) {perm = [0, 3, 2, 1]}
    %m = MatMul(%at, %bt)
    %mt = Transpose(%m) {perm = [0, 2, 3, 1]}
    %n = )",
                   norm, R"((%mt, %s) {axis = 3, epsilon = 0.001}
    %y = MatMul(%n, %ow)
    return %y
  })");
  };
  for (const auto& [norm, reduced] :
       {std::pair{"RMSNormalization", 2}, {"LayerNormalization", 3}}) {
    const std::string text = text_of(norm);
    const CompiledModel one = compile_text(text, tensor(""));
    for (const int ranks : {2, 3, 4}) {
      const std::string mesh = str_cat("tp=", ranks);
      const auto model = compile_text(text, tensor(mesh));
      EXPECT_EQ(kinds(model), (Kinds{{"AllReduce tp", reduced}})) << model.explain;
      EXPECT_NEAR(model.memory[0].weights, one.memory[0].weights / ranks, 40);
      const NamedTensors tensors = {{"x", random_f32({2, 5, 5, 24}, 1)}};
      expect_one_rank_result(model, text, tensors, {{"b", 2}, {"n", 5}}, mesh);
    }
  }
}

// Two key heads on four ranks: the keys' product is whole where pieces of its result would stand
// on several ranks, and so is what their norm sums. On three ranks, no piece does.
TEST_F(TensorFeaturesTest, NormsOfKeysThatStandOnSeveralRanksGatherNothing) {
  const std::string text = R"(graph @g (%x: f32[b, t, 32]) {
    %qw = constant f32[32, 32] data
    %kw = constant f32[32, 16] data
    %vw = constant f32[32, 16] data
    %ow = constant f32[32, 32] data
    %ks = constant f32[16] data
    %qm = MatMul(%x, %qw)
    %km = MatMul(%x, %kw)
    %vm = MatMul(%x, %vw)
    %kn = LayerNormalization(%km, %ks) {axis = 2, epsilon = 0.001}
    %q = Reshape(%qm) {shape = dims[b, t, 4, 8]}
    %k = Reshape(%kn) {shape = dims[b, t, 2, 8]}
    %v = Reshape(%vm) {shape = dims[b, t, 2, 8]}
    %a = Attention(%q, %k, %v) {layout = "bshd", scale = 0.5}
    %af = Reshape(%a) {shape = dims[b, t, 32]}
    %y = MatMul(%af, %ow)
    return %y
  })";
  for (const std::string_view mesh : {"tp=3", "tp=4"}) {
    const auto model = compile_text(text, tensor(mesh));
    EXPECT_EQ(kinds(model)["AllGather tp"], 0) << model.explain;
    const NamedTensors tensors = {{"x", random_f32({2, 5, 32}, 1)}};
    expect_one_rank_result(model, text, tensors, {{"b", 2}, {"t", 5}}, mesh);
  }
}

}  // namespace
}  // namespace tutti
