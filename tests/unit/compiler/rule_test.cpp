// Every operator's layout rule against its kernel: each dimension of each value of a small graph is
// seeded in turn, and the pieces must add up to the whole. A rule that promises too much shows
// here.
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

struct RuleCase {
  std::string_view name;
  std::string_view inputs;  // in text; sizes are numbers or the symbols m = 6, n = 5
  std::string_view body;    // the last value is %y
};

const RuleCase kCases[] = {
    {"Exp", "%x: f32[m, n]", "%y = Exp(%x)"},
    {"AddBroadcast", "%x: f32[m, n, 4], %z: f32[n, 1]", "%y = Add(%x, %z)"},
    {"Where", "%x: f32[m, n], %z: f32[m, 1]", "%c = Greater(%x, %z)\n %y = Where(%c, %x, %z)"},
    {"Cast", "%x: f32[m, n]", "%h = Cast(%x) {to = \"f64\"}\n %y = Cast(%h) {to = \"f32\"}"},
    {"Transpose", "%x: f32[m, n, 4]", "%y = Transpose(%x) {perm = [2, 0, 1]}"},
    {"ReshapeSplit", "%x: f32[m, 24]", "%y = Reshape(%x) {shape = dims[m, 6, 4]}"},
    {"ReshapeMerge", "%x: f32[m, n, 4]", "%y = Reshape(%x) {shape = dims[m*n, 4]}"},
    {"ReshapeMergeAll", "%x: f32[4, 6, 2]", "%y = Reshape(%x) {shape = dims[48]}"},
    {"ReshapeAcross", "%x: f32[4, 6]", "%y = Reshape(%x) {shape = dims[3, 8]}"},
    {"ReshapeMixed", "%x: f32[6, 4, 9]", "%y = Reshape(%x) {shape = dims[2, 12, 3, 3]}"},
    {"ReshapeOnes", "%x: f32[m, 1, 4]", "%y = Reshape(%x) {shape = dims[1, m, 4, 1]}"},
    {"Expand", "%x: f32[m, 1, 4]", "%y = Expand(%x) {shape = dims[3, m, 5, 4]}"},
    {"Slice", "%x: f32[m, 8]",
     "%y = Slice(%x) {axes = [1], starts = dims[6], ends = dims[1], steps = [-2]}"},
    {"Concat", "%x: f32[m, n, 4], %z: f32[m, n, 2]", "%y = Concat(%x, %z) {axis = 2}"},
    {"Split", "%x: f32[m, 8]",
     "%a: f32[m, 2], %b: f32[m, 6] = Split(%x) {axis = 1, sizes = dims[2, 6]}\n"
     " %y = Concat(%b, %a) {axis = 1}"},
    {"ConcatThenCuts", "%x: f32[m, 4], %z: f32[n, 4], %v: f32[3, 4]",
     "%j = Concat(%x, %z, %v) {axis = 0}\n %e = Exp(%j)\n"
     " %a = Slice(%e) {axes = [0], starts = dims[m], ends = dims[m+n+3], steps = [1]}\n"
     " %b: f32[n, 4], %c: f32[3, 4] = Split(%a) {axis = 0, sizes = dims[n, 3]}\n"
     " %d = Slice(%e) {axes = [0], starts = dims[0], ends = dims[m], steps = [1]}\n"
     " %s = Softmax(%b) {axis = 0}\n %y = Concat(%c, %s, %d) {axis = 0}"},
    {"ConcatThenSum", "%x: f32[m, 4], %z: f32[n, 4]",
     "%j = Concat(%x, %z) {axis = 0}\n"
     " %y = Reduce(%j) {kind = \"sum\", axes = [0], keepdims = 1}"},
    {"Pad", "%x: f32[m, n]",
     "%y = Pad(%x) {axes = [1], before = dims[1], after = dims[2], mode = \"constant\"}"},
    {"Tile", "%x: f32[m, n]", "%y = Tile(%x) {repeats = dims[2, 1]}"},
    {"Gather", "%x: f32[m, n, 4]",
     "%i = constant i64[2, 3] [0, 3, 1, 1, 2, 4]\n %y = Gather(%x, %i) {axis = 1}"},
    {"GatherRows", "%x: f32[7, 4]",
     "%i = constant i64[2, 3] [0, 3, 6, 1, 2, 4]\n %y = Gather(%x, %i) {axis = 0}"},
    {"GatherElements", "%x: f32[4, 3]",
     "%i = constant i64[2, 3] [0, 3, 1, 1, 2, 0]\n %y = GatherElements(%x, %i) {axis = 0}"},
    {"CumSum", "%x: f32[m, n]", "%y = CumSum(%x) {axis = 1, exclusive = 0, reverse = 0}"},
    {"Trilu", "%x: f32[m, n, n]", "%y = Trilu(%x) {upper = 0, k = 0}"},
    {"ReduceSum", "%x: f32[m, n, 4]", "%y = Reduce(%x) {kind = \"sum\", axes = [1], keepdims = 0}"},
    {"ReduceMean", "%x: f32[m, n, 4]",
     "%y = Reduce(%x) {kind = \"mean\", axes = [0, 2], keepdims = 1}"},
    {"ReduceMax", "%x: f32[m, n, 4]", "%y = Reduce(%x) {kind = \"max\", axes = [1], keepdims = 1}"},
    {"MatMul", "%x: f32[m, n], %z: f32[n, 7]", "%y = MatMul(%x, %z)"},
    {"MatMulBatched", "%x: f32[m, 1, n, 4], %z: f32[3, 4, 5]", "%y = MatMul(%x, %z)"},
    {"Linear", "%x: f32[m, n, 4], %r: f32[m, n, 6]",
     "%w = constant f32[6, 4] data\n %b = constant f32[6] data\n"
     " %y = Linear(%x, %w, %b, %r) {transpose_w = 1, activation = \"silu\"}"},
    {"LinearBare", "%x: f32[m, 8]", "%w = constant f32[8, 6] data\n %y = Linear(%x, %w)"},
    {"LayerNorm", "%x: f32[m, n, 8]",
     "%s = constant f32[8] data\n %b = constant f32[8] data\n"
     " %y = LayerNormalization(%x, %s, %b) {axis = 2, epsilon = 0.0009765625}"},
    {"RMSNorm", "%x: f32[m, n, 8]",
     "%s = constant f32[8] data\n %y = RMSNormalization(%x, %s) {axis = 2, epsilon = "
     "0.0009765625}"},
    {"GroupNorm", "%x: f32[m, 6, n]", "%y = GroupNorm(%x) {groups = 3, epsilon = 0.0009765625}"},
    {"Softmax", "%x: f32[m, n, 4]", "%y = Softmax(%x) {axis = 1}"},
    {"Attention", "%q: f32[2, 6, m, 4], %k: f32[2, 3, n, 4], %v: f32[2, 3, n, 8]",
     "%y = Attention(%q, %k, %v) {layout = \"bhsd\", scale = 0.5}"},
    {"AttentionTokensFirst", "%q: f32[2, m, 6, 4], %k: f32[2, n, 2, 4], %v: f32[2, n, 2, 4]",
     "%y = Attention(%q, %k, %v) {layout = \"bshd\", scale = 0.5}"},
    {"AttentionCausal", "%q: f32[2, 4, m, 4], %k: f32[2, 4, m, 4]",
     "%y = Attention(%q, %k, %k) {layout = \"bhsd\", scale = 0.5, is_causal = 1}"},
    {"AttentionMask", "%q: f32[2, 4, m, 4], %k: f32[2, 2, n, 4], %mask: f32[2, 4, m, n]",
     "%y = Attention(%q, %k, %k, %mask) {layout = \"bhsd\", scale = 0.5}"},
    {"AttentionOneKeyHead", "%q: f32[2, 6, m, 4], %k: f32[2, 1, n, 4]",
     "%y = Attention(%q, %k, %k) {layout = \"bhsd\", scale = 0.5}"},
    {"Conv", "%x: f32[m, 4, 6, n]",
     "%w = constant f32[8, 4, 3, 3] data\n %b = constant f32[8] data\n"
     " %y = Conv(%x, %w, %b) {strides = [2, 1], pads = [1, 1, 1, 1], "
     "dilations = [1, 1], group = 1}"},
    {"ConvGrouped", "%x: f32[m, 4, 9]",
     "%w = constant f32[8, 2, 3] data\n"
     " %y = Conv(%x, %w) {strides = [1], pads = [1, 1], dilations = [1], "
     "group = 2}"},
    {"ConvTranspose", "%x: f32[m, 4, 5]",
     "%w = constant f32[4, 6, 3] data\n"
     " %y = ConvTranspose(%x, %w) {strides = [2], pads = [1, 1], "
     "dilations = [1], group = 1, output_padding = [0]}"},
    {"ConvDilatedWide", "%x: f32[2, 3, n, 7]",
     "%w = constant f32[4, 3, 5, 3] data\n"
     " %y = Conv(%x, %w) {strides = [1, 3], pads = [4, 0, 4, 2], dilations = [2, 1], group = 1}"},
    {"ConvValid", "%x: f32[2, 3, 11]", "%w = constant f32[4, 3, 4] data\n %y = Conv(%x, %w)"},
    {"ConvCausal", "%x: f32[2, 3, n, m, 4]",
     "%w = constant f32[4, 3, 3, 3, 3] data\n %b = constant f32[4] data\n"
     " %y = Conv(%x, %w, %b) {pads = [2, 1, 1, 0, 1, 1]}"},
    {"ConvStridePastKernel", "%x: f32[2, 3, 11, m]",
     "%w = constant f32[4, 3, 1, 2] data\n %y = Conv(%x, %w) {strides = [3, 3]}"},
    {"ConvPointwise", "%x: f32[2, 3, n, m]",
     "%w = constant f32[4, 3, 1, 1] data\n %y = Conv(%x, %w)"},
    {"ConvPaddedPointwise", "%x: f32[2, 3, n]",
     "%w = constant f32[4, 3, 1] data\n %y = Conv(%x, %w) {pads = [2, 1]}"},
    {"ConvTransposeDoubling", "%x: f32[2, 4, n, 3]",
     "%w = constant f32[4, 6, 4, 3] data\n %b = constant f32[6] data\n"
     " %y = ConvTranspose(%x, %w, %b) {strides = [2, 2], pads = [1, 1, 1, 1],"
     " output_padding = [0, 1]}"},
    {"ConvTransposeGaps", "%x: f32[2, 4, n]",
     "%w = constant f32[4, 6, 2] data\n"
     " %y = ConvTranspose(%x, %w) {strides = [4], output_padding = [2]}"},
    {"ConvTransposeDilatedShifted", "%x: f32[1, 2, n]",
     "%w = constant f32[2, 3, 3] data\n"
     " %y = ConvTranspose(%x, %w) {strides = [3], pads = [3, 2], dilations = [3],"
     " output_padding = [1]}"},
    {"MaxPool", "%x: f32[2, 3, n, m]",
     "%y = Pool(%x) {kind = \"max\", kernel_shape = [3, 2], strides = [1, 2], pads = [1, 0, 1, "
     "0]}"},
    {"AveragePool", "%x: f32[2, 3, n, m]",
     "%y = Pool(%x) {kind = \"average\", kernel_shape = [3, 3], strides = [1, 1],"
     " pads = [1, 1, 1, 1], count_include_pad = 1}"},
    {"AveragePoolOfWhatIsThere", "%x: f32[2, 3, n, m]",
     "%y = Pool(%x) {kind = \"average\", kernel_shape = [3, 2], strides = [1, 2],"
     " pads = [1, 0, 1, 0]}"},
    {"PoolRoundedUp", "%x: f32[2, 3, n]",
     "%y = Pool(%x) {kind = \"max\", kernel_shape = [2], strides = [2], ceil_mode = 1}"},
    {"ResizeNearest", "%x: f32[2, 3, n, m]",
     "%y = Resize(%x) {axes = [2, 3], sizes = dims[2*n, 3*m], scales = [2.0, 3.0],"
     " mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\","
     " nearest_mode = \"floor\"}"},
    {"ResizeNearestHalfPixel", "%x: f32[2, 3, n]",
     "%y = Resize(%x) {axes = [2], sizes = dims[4*n], mode = \"nearest\","
     " coordinate_transformation_mode = \"half_pixel\", nearest_mode = \"round_prefer_ceil\"}"},
    {"ResizeNearestCeil", "%x: f32[2, 3, n]",
     "%y = Resize(%x) {axes = [2], sizes = dims[3*n], mode = \"nearest\","
     " coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"ceil\"}"},
    {"ResizeLinear", "%x: f32[2, 3, n, m]",
     "%y = Resize(%x) {axes = [2, 3], sizes = dims[2*n, 2*m], scales = [2.0, 2.0],"
     " mode = \"linear\", coordinate_transformation_mode = \"half_pixel\"}"},
    {"ResizeLinearAsymmetric", "%x: f32[2, 3, n]",
     "%y = Resize(%x) {axes = [2], sizes = dims[3*n], mode = \"linear\","
     " coordinate_transformation_mode = \"asymmetric\"}"},
    {"ResizeLinearCorners", "%x: f32[2, 3, n]",
     "%y = Resize(%x) {axes = [2], sizes = dims[2*n], mode = \"linear\","
     " coordinate_transformation_mode = \"align_corners\"}"},
    {"ResizeCubic", "%x: f32[2, 3, n]",
     "%y = Resize(%x) {axes = [2], sizes = dims[2*n], mode = \"cubic\","
     " coordinate_transformation_mode = \"half_pixel\"}"},
    {"ResizeUneven", "%x: f32[2, 3, n]",
     "%y = Resize(%x) {axes = [2], sizes = dims[7], mode = \"linear\"}"},
    {"SliceRows", "%x: f32[m, 9]",
     "%y = Slice(%x) {axes = [0, 1], starts = dims[1, 2], ends = dims[m, 9], steps = [1, 2]}"},
    {"SliceOneRow", "%x: f32[m, n]",
     "%y = Slice(%x) {axes = [0], starts = dims[2], ends = dims[3], steps = [1]}"},
    {"PadEdge", "%x: f32[m, n]",
     "%y = Pad(%x) {axes = [0, 1], before = dims[4, 1], after = dims[0, 7], mode = \"edge\"}"},
    {"PadReflect", "%x: f32[m, n]",
     "%y = Pad(%x) {axes = [0], before = dims[5], after = dims[3], mode = \"reflect\"}"},
    {"PadWrap", "%x: f32[m, n]",
     "%y = Pad(%x) {axes = [0], before = dims[2], after = dims[4], mode = \"wrap\"}"},
    {"PadNumber", "%x: f32[m, n]",
     "%v = constant f32[] [3.0]\n"
     " %y = Pad(%x, %v) {axes = [0], before = dims[2], after = dims[1], mode = \"constant\"}"},
    {"ReduceSumSquare", "%x: f32[m, n, 4]",
     "%y = Reduce(%x) {kind = \"sum_square\", axes = [0, 2], keepdims = 0}"},
    {"ReduceL1", "%x: f32[m, n]", "%y = Reduce(%x) {kind = \"l1\", axes = [0], keepdims = 0}"},
};

class RuleTest : public CompilerTest, public ::testing::WithParamInterface<RuleCase> {
 protected:
  static std::string text_of(const RuleCase& rule) {
    return str_cat("graph @rule (", rule.inputs, ") {\n ", rule.body, "\n return %y\n}");
  }

  NamedTensors inputs_of(const Graph& graph) {
    NamedTensors tensors;
    unsigned seed = 1;
    for (const Value* input : graph.inputs()) {
      tensors[input->name()] = random_f32(*evaluate(input->shape(), sizes_), seed++);
    }
    return tensors;
  }

  // Puts an input together from two parts along `dim`, "front" and "back".
  void join_input(Graph& graph, std::size_t input, std::int64_t dim) {
    Value* x = graph.inputs()[input];
    const std::vector<Node*> users = x->users();
    const Dim& size = x->shape()[static_cast<std::size_t>(dim)];
    const Dim border = size.is_constant() ? Dim(size.constant() / 2) : Dim(2);
    GraphBuilder b(&graph, &ops_);
    b.set_insertion_point(graph.nodes().front().get());
    Value* front = b.slice(x, {dim}, {0}, {border});
    Value* back = b.slice(x, {dim}, {border}, {size});
    Value* joined = b.op("Concat", {front, back}, {{"axis", dim}});
    ASSERT_TRUE(b.status().ok()) << b.status().to_string();
    graph.rename(front, "front");
    graph.rename(back, "back");
    for (Node* user : users) {
      for (std::size_t i = 0; i < user->inputs().size(); ++i) {
        if (user->input(i) == x) user->set_input(i, joined);
      }
    }
  }

  // Partitioned as the seeds say, wherever that is possible, every rank has `right`.
  void expect_whole(const Graph& graph, CompileOptions seeded, const NamedTensors& inputs,
                    const Tensor& right, const std::string& what) {
    // Links that cost nothing: whatever may be split is split.
    seeded.rates.bytes_per_second = 1e30;
    seeded.rates.seconds_per_exchange = 0;
    CompiledModel model;
    model.mesh = seeded.mesh;
    Partitioned spmd = to_spmd(graph, seeded);
    ASSERT_NE(spmd.graph, nullptr);
    model.main = std::move(spmd.graph);
    for (const Value* input : graph.inputs()) {
      model.inputs.push_back({input->name(), input->type()});
    }
    const auto found = SpmdInterpreter(&ops_).run(model, inputs);
    ASSERT_TRUE(found.ok()) << found.status().to_string() << "\n" << print(*model.main);
    for (const auto& outputs : *found) {
      ASSERT_LE(relative_error(outputs[0], right), 2e-6) << what << "\n" << print(*model.main);
    }
  }

  const SymbolMap sizes_ = {{"m", 6}, {"n", 5}};
};

TEST_P(RuleTest, PiecesAlongAnyDimensionGiveTheWhole) {
  const std::string text = text_of(GetParam());
  const auto whole = parse_model(text);
  const NamedTensors inputs = inputs_of(*whole);
  SpmdInterpreter interpreter(&ops_);
  const auto right = interpreter.run_whole(*whole, inputs, sizes_);
  ASSERT_TRUE(right.ok()) << right.status().to_string();
  for (const Value* value : whole->values()) {
    for (std::size_t dim = 0; dim < value->rank(); ++dim) {
      for (const int ranks : {2, 3, 4}) {
        // Rows of Slices and Pads move under the strategy of `sp` alone.
        const std::string axis = ranks == 4 ? "ax" : "sp";
        CompileOptions seeded = options(str_cat(axis, "=", ranks));
        seeded.seeds = {{value->name(), static_cast<int>(dim), axis}};
        expect_whole(*parse_model(text), seeded, inputs, (*right)[0],
                     str_cat(value->name(), " dimension ", dim, " over ", ranks, " ranks"));
      }
    }
  }
}

// Each input in turn is a concatenation of two sequences that are split by themselves, so that it
// arrives in segments.
TEST_P(RuleTest, SegmentsAlongAnyDimensionGiveTheWhole) {
  const std::string text = text_of(GetParam());
  const auto whole = parse_model(text);
  const NamedTensors inputs = inputs_of(*whole);
  SpmdInterpreter interpreter(&ops_);
  const auto right = interpreter.run_whole(*whole, inputs, sizes_);
  ASSERT_TRUE(right.ok()) << right.status().to_string();
  for (std::size_t i = 0; i < whole->inputs().size(); ++i) {
    for (std::size_t dim = 0; dim < whole->inputs()[i]->rank(); ++dim) {
      if (whole->inputs()[i]->shape()[dim].is(1)) continue;
      for (const int ranks : {2, 3}) {
        auto graph = parse_model(text);
        join_input(*graph, i, static_cast<std::int64_t>(dim));
        CompileOptions seeded = options(str_cat("ax=", ranks));
        const int seeded_dim = static_cast<int>(dim);
        seeded.seeds = {{"front", seeded_dim, "ax"}, {"back", seeded_dim, "ax"}};
        expect_whole(*graph, seeded, inputs, (*right)[0],
                     str_cat(whole->inputs()[i]->name(), " dimension ", dim, " in segments over ",
                             ranks, " ranks"));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, RuleTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti
