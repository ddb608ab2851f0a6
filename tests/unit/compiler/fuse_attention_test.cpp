#include "compiler_fixture.h"

namespace tutti {
namespace {

using FuseAttentionTest = CompilerTest;

constexpr std::string_view kHead =
    "graph @g (%q: f32[b, 8, s, 16], %k: f32[b, 8, t, 16], %v: f32[b, 8, t, 16], "
    "%mask: f32[b, 1, 1, t], %open: bool[b, 1, 1, t]) {\n"
    "  %scale = constant f32[] [0.25]\n"
    "  %root = constant f32[] [0.5]\n"
    "  %four = constant f32[] [4.0]\n"
    "  %closed = constant f32[] [-inf]\n";

std::string with_head(std::string_view body) { return str_cat(kHead, body, "\n return %y\n}"); }

const std::string kPlain =
    with_head("%y = Attention(%q, %k, %v) {layout = \"bhsd\", scale = 0.25}");

TEST_F(FuseAttentionTest, ScaledScores) {
  for (const std::string_view scaled :
       {"%c = Mul(%a, %scale)", "%c = Div(%a, %four)", "%c = Mul(%scale, %a)"}) {
    expect_pass(fuse_attention,
                with_head(str_cat(R"(
      %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
      %a = MatMul(%q, %kt)
      )",
                                  scaled, R"(
      %p = Softmax(%c) {axis = 3}
      %y = MatMul(%p, %v))")),
                kPlain);
  }
}

TEST_F(FuseAttentionTest, ScaleOnTheQueries) {
  expect_pass(fuse_attention, with_head(R"(
    %qs = Div(%q, %four)
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%qs, %kt)
    %p = Softmax(%a) {axis = 3}
    %y = MatMul(%p, %v))"),
              kPlain);
}

TEST_F(FuseAttentionTest, ARootOfTheScaleOnQueriesAndKeysBeforeOrAfterTheirTranspose) {
  expect_pass(fuse_attention, with_head(R"(
    %qs = Mul(%q, %root)
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %ks = Mul(%kt, %root)
    %a = MatMul(%qs, %ks)
    %p = Softmax(%a) {axis = 3}
    %y = MatMul(%p, %v))"),
              kPlain);
  expect_pass(fuse_attention, with_head(R"(
    %qs = Mul(%q, %root)
    %ks = Mul(%k, %root)
    %kt = Transpose(%ks) {perm = [0, 1, 3, 2]}
    %a = MatMul(%qs, %kt)
    %p = Softmax(%a) {axis = 3}
    %y = MatMul(%p, %v))"),
              kPlain);
}

TEST_F(FuseAttentionTest, AnAddedMaskGoesIn) {
  expect_pass(fuse_attention, with_head(R"(
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %c = Mul(%a, %scale)
    %m = Add(%c, %mask)
    %p = Softmax(%m) {axis = 3}
    %y = MatMul(%p, %v))"),
              with_head("%y = Attention(%q, %k, %v, %mask) {layout = \"bhsd\", scale = 0.25}"));
}

// cap * tanh(s / cap), as Gemma's attention closes its scores in.
TEST_F(FuseAttentionTest, ASoftcapGoesIn) {
  expect_pass(fuse_attention, with_head(R"(
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %c = Mul(%a, %scale)
    %d = Div(%c, %four)
    %h = Tanh(%d)
    %e = Mul(%h, %four)
    %m = Add(%e, %mask)
    %p = Softmax(%m) {axis = 3}
    %y = MatMul(%p, %v))"),
              with_head("%y = Attention(%q, %k, %v, %mask) "
                        "{layout = \"bhsd\", scale = 0.25, softcap = 4.0}"));
}

TEST_F(FuseAttentionTest, ATanhOfATanhIsNoSoftcap) {
  const std::string text = with_head(R"(
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %g = Tanh(%a)
    %h = Tanh(%g)
    %p = Softmax(%h) {axis = 3}
    %y = MatMul(%p, %v))");
  expect_pass(fuse_attention, text, text);
}

TEST_F(FuseAttentionTest, AMaskThatIsScaledTooStaysDecomposed) {
  const std::string text = with_head(R"(
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %m = Add(%a, %mask)
    %c = Mul(%m, %scale)
    %p = Softmax(%c) {axis = 3}
    %y = MatMul(%p, %v))");
  expect_pass(fuse_attention, text, text);
}

TEST_F(FuseAttentionTest, AWhereMaskGoesInAsBool) {
  expect_pass(fuse_attention, with_head(R"(
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %c = Mul(%a, %scale)
    %m = Where(%open, %c, %closed)
    %p = Softmax(%m) {axis = 3}
    %y = MatMul(%p, %v))"),
              with_head("%y = Attention(%q, %k, %v, %open) {layout = \"bhsd\", scale = 0.25}"));
  expect_pass(fuse_attention, with_head(R"(
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %c = Mul(%a, %scale)
    %m = Where(%open, %closed, %c)
    %p = Softmax(%m) {axis = 3}
    %y = MatMul(%p, %v))"),
              with_head("%n = Not(%open)\n"
                        "%y = Attention(%q, %k, %v, %n) {layout = \"bhsd\", scale = 0.25}"));
}

TEST_F(FuseAttentionTest, ASoftmaxOverQueriesIsNoAttention) {
  const std::string text = with_head(R"(
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %p = Softmax(%a) {axis = 2}
    %y = MatMul(%p, %v))");
  expect_pass(fuse_attention, text, text);
}

TEST_F(FuseAttentionTest, WeightsThatAreAnOutputStay) {
  const std::string text = str_cat(kHead, R"(
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %p = Softmax(%a) {axis = 3}
    %y = MatMul(%p, %v)
    return %y, %p
  })");
  expect_pass(fuse_attention, text, text);
}

TEST_F(FuseAttentionTest, SoftmaxInAWiderTypeIsTheKernelsAffair) {
  expect_pass(fuse_attention,
              R"(graph @g (%q: f16[b, 8, s, 16], %k: f16[b, 8, t, 16], %v: f16[b, 8, t, 16]) {
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %w = Cast(%a) {to = "f32"}
    %p = Softmax(%w) {axis = 3}
    %n = Cast(%p) {to = "f16"}
    %y = MatMul(%n, %v)
    return %y
  })",
              R"(graph @g (%q: f16[b, 8, s, 16], %k: f16[b, 8, t, 16], %v: f16[b, 8, t, 16]) {
    %y = Attention(%q, %k, %v) {layout = "bhsd", scale = 1.0}
    return %y
  })");
}

TEST_F(FuseAttentionTest, MergedBatchAndHeadsCountAsHeads) {
  expect_pass(fuse_attention,
              R"(graph @g (%q: f32[m, s, 16], %k: f32[m, t, 16], %v: f32[m, t, 16]) {
    %kt = Transpose(%k) {perm = [0, 2, 1]}
    %a = MatMul(%q, %kt)
    %p = Softmax(%a) {axis = 2}
    %y = MatMul(%p, %v)
    return %y
  })",
              R"(graph @g (%q: f32[m, s, 16], %k: f32[m, t, 16], %v: f32[m, t, 16]) {
    %q4 = Reshape(%q) {shape = dims[1, m, s, 16]}
    %k4 = Reshape(%k) {shape = dims[1, m, t, 16]}
    %v4 = Reshape(%v) {shape = dims[1, m, t, 16]}
    %a = Attention(%q4, %k4, %v4) {layout = "bhsd", scale = 1.0}
    %y = Reshape(%a) {shape = dims[m, s, 16]}
    return %y
  })");
}

TEST_F(FuseAttentionTest, ExpandedKeyValueHeadsAreTakenUnexpanded) {
  expect_pass(fuse_attention,
              R"(graph @g (%q: f32[b, 8, s, 16], %k: f32[b, 4, t, 16], %v: f32[b, 4, t, 16]) {
    %k5 = Reshape(%k) {shape = dims[b, 4, 1, t, 16]}
    %ke = Expand(%k5) {shape = dims[b, 4, 2, t, 16]}
    %k8 = Reshape(%ke) {shape = dims[b, 8, t, 16]}
    %v5 = Reshape(%v) {shape = dims[b, 4, 1, t, 16]}
    %ve = Expand(%v5) {shape = dims[b, 4, 2, t, 16]}
    %v8 = Reshape(%ve) {shape = dims[b, 8, t, 16]}
    %kt = Transpose(%k8) {perm = [0, 1, 3, 2]}
    %a = MatMul(%q, %kt)
    %p = Softmax(%a) {axis = 3}
    %y = MatMul(%p, %v8)
    return %y
  })",
              R"(graph @g (%q: f32[b, 8, s, 16], %k: f32[b, 4, t, 16], %v: f32[b, 4, t, 16]) {
    %k5 = Reshape(%k) {shape = dims[b, 4, 1, t, 16]}
    %v5 = Reshape(%v) {shape = dims[b, 4, 1, t, 16]}
    %k4 = Reshape(%k5) {shape = dims[b, 4, t, 16]}
    %v4 = Reshape(%v5) {shape = dims[b, 4, t, 16]}
    %y = Attention(%q, %k4, %v4) {layout = "bhsd", scale = 1.0}
    return %y
  })");
}

TEST_F(FuseAttentionTest, HeadsRepeatedInTheOtherOrderAreNoGroups) {
  // [b, 1, 4, ..] -> [b, 2, 4, ..]: query head h belongs to key head h mod 4, not h div 2.
  const auto graph = parse(R"(graph @g (%q: f32[b, 8, s, 16], %k: f32[b, 4, t, 16]) {
    %k5 = Reshape(%k) {shape = dims[b, 1, 4, t, 16]}
    %ke = Expand(%k5) {shape = dims[b, 2, 4, t, 16]}
    %k8 = Reshape(%ke) {shape = dims[b, 8, t, 16]}
    %y = Attention(%q, %k8, %k8) {layout = "bhsd", scale = 1.0}
    return %y
  })");
  ASSERT_TRUE(fuse_attention(*graph, options()).ok());
  EXPECT_EQ(find_node(*graph, "Attention")->input(1)->shape()[1], Dim(8));
}

TEST_F(FuseAttentionTest, HeadTransposesSinkPastNormsAndRotationIntoTheLayout) {
  const auto graph = parse(
      R"(graph @g (%x: f32[b, s, 8, 32], %k: f32[b, s, 8, 32], %cos: f32[s, 16], %sin: f32[s, 16]) {
    %w = constant f32[32] data
    %t = Transpose(%x) {perm = [0, 2, 1, 3]}
    %n = RMSNormalization(%t, %w) {axis = 3, epsilon = 0.0009765625}
    %l: f32[b, 8, s, 16], %r: f32[b, 8, s, 16] = Split(%n) {axis = 3, sizes = dims[16, 16]}
    %lc = Mul(%l, %cos)
    %rs = Mul(%r, %sin)
    %d = Sub(%lc, %rs)
    %rc = Mul(%r, %cos)
    %ls = Mul(%l, %sin)
    %u = Add(%rc, %ls)
    %q = Concat(%d, %u) {axis = 3}
    %kt = Transpose(%k) {perm = [0, 2, 1, 3]}
    %a = Attention(%q, %kt, %kt) {layout = "bhsd", scale = 1.0}
    %y = Transpose(%a) {perm = [0, 2, 1, 3]}
    return %y
  })");
  ASSERT_TRUE(sink_transposes(*graph, options()).ok());
  ASSERT_TRUE(set_attention_layouts(*graph, options()).ok());
  ASSERT_TRUE(graph->verify().ok());
  EXPECT_EQ(count_nodes(*graph, "Transpose"), 0) << print(*graph);
  EXPECT_EQ(find_node(*graph, "Attention")->attr_string("layout"), "bshd");
  // The tables broadcast along heads, now in third place.
  const Node* product = find_node(*graph, "Mul");
  EXPECT_EQ(product->input(1)->shape(), (Shape{Dim::symbol("s"), 1, 16}));
}

// A text tower whose keys its own attention reads, and the video tower's, joined with its own.
TEST_F(FuseAttentionTest, ATransposeThatAnAttentionReadsSinksPastItsOtherUsers) {
  const auto graph = parse(R"(graph @g (%x: f32[b, t, 8, 16], %y: f32[b, s, 8, 16]) {
    %xt = Transpose(%x) {perm = [0, 2, 1, 3]}
    %yt = Transpose(%y) {perm = [0, 2, 1, 3]}
    %xa = Attention(%xt, %xt, %xt) {layout = "bhsd", scale = 1.0, is_causal = 1}
    %all = Concat(%xt, %yt) {axis = 2}
    %ya = Attention(%yt, %all, %all) {layout = "bhsd", scale = 1.0}
    %u = Transpose(%xa) {perm = [0, 2, 1, 3]}
    %v = Transpose(%ya) {perm = [0, 2, 1, 3]}
    return %u, %v
  })");
  ASSERT_TRUE(sink_transposes(*graph, options()).ok());
  ASSERT_TRUE(set_attention_layouts(*graph, options()).ok());
  ASSERT_TRUE(graph->verify().ok());
  EXPECT_EQ(count_nodes(*graph, "Transpose"), 0) << print(*graph);
  EXPECT_EQ(find_node(*graph, "Concat")->attr_int("axis"), 1);
}

TEST_F(FuseAttentionTest, ALayoutThatWouldAddTransposesIsNotTaken) {
  const std::string text = R"(graph @g (%q: f32[b, 8, s, 16], %k: f32[b, 8, t, 16]) {
    %y = Attention(%q, %k, %k) {layout = "bhsd", scale = 1.0}
    return %y
  })";
  expect_pass(set_attention_layouts, text, text);
}

// As torch.export writes scaled_dot_product_attention with grouped heads: the transpose of the keys
// goes through three dimensions and back, so the repeat shows only after it is gone.
TEST_F(FuseAttentionTest, RepeatsBehindMovementsThatUndoEachOtherGoLater) {
  constexpr std::string_view kBefore =
      R"(graph @g (%q: f32[1, 4, s, 16], %k: f32[1, 2, t, 16], %v: f32[1, 2, t, 16]) {
    %kw = Reshape(%k) {shape = dims[1, 2, 1, t, 16]}
    %ke = Expand(%kw) {shape = dims[1, 2, 2, t, 16]}
    %kr = Reshape(%ke) {shape = dims[1, 4, t, 16]}
    %k3 = Reshape(%kr) {shape = dims[4, t, 16]}
    %kt = Transpose(%k3) {perm = [0, 2, 1]}
    %k4 = Reshape(%kt) {shape = dims[1, 4, 16, t]}
    %vw = Reshape(%v) {shape = dims[1, 2, 1, t, 16]}
    %ve = Expand(%vw) {shape = dims[1, 2, 2, t, 16]}
    %vr = Reshape(%ve) {shape = dims[1, 4, t, 16]}
    %qk = MatMul(%q, %k4)
    %p = Softmax(%qk) {axis = 3}
    %y = MatMul(%p, %vr)
    return %y
  })";
  const auto graph = parse(kBefore);
  ASSERT_TRUE(fuse_attention(*graph, options()).ok());
  ASSERT_TRUE(simplify(*graph, options()).ok());
  ASSERT_TRUE(drop_head_repeats(*graph, options()).ok());
  EXPECT_EQ(canonical(*graph),
            canonical(*parse(
                R"(graph @g (%q: f32[1, 4, s, 16], %k: f32[1, 2, t, 16], %v: f32[1, 2, t, 16]) {
    %y = Attention(%q, %k, %v) {scale = 1.0, layout = "bhsd"}
    return %y
  })")));
}

}  // namespace
}  // namespace tutti
