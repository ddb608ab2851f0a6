// The strategy `spatial`: convolutional graphs on N ranks against the uncompiled graph on one.
#include <gmock/gmock.h>

#include <random>

#include "compiler/cost.h"
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks[] = {2, 3, 4, 8};

// Two levels of a video decoder: causal convolutions, group norms, attention over each frame,
// doubling in space and time.
constexpr std::string_view kDecoder = R"(graph @decoder (%latents: f32[b, 4, t, h, w]) {
  %w0 = constant f32[8, 4, 3, 3, 3] data
  %w1 = constant f32[8, 8, 3, 3, 3] data
  %w2 = constant f32[8, 8, 3, 3, 3] data
  %w3 = constant f32[8, 8, 3, 3, 3] data
  %w4 = constant f32[12, 8, 3, 3, 3] data
  %scale = constant f32[8] data
  %bias = constant f32[8] data
  %x0 = Conv(%latents, %w0) {pads = [2, 1, 1, 0, 1, 1]}
  %n0 = GroupNorm(%x0, %scale, %bias) {groups = 4, epsilon = 0.0009765625}
  %s0 = Silu(%n0)
  %first = Slice(%s0) {axes = [2], starts = dims[0], ends = dims[1], steps = [1]}
  %p0 = Concat(%first, %first, %s0) {axis = 2}
  %c0 = Conv(%p0, %w1) {pads = [0, 1, 1, 0, 1, 1]}
  %x1 = Add(%x0, %c0)
  %tokens = Transpose(%x1) {perm = [0, 2, 3, 4, 1]}
  %q = Reshape(%tokens) {shape = dims[b*t, 1, h*w, 8]}
  %att = Attention(%q, %q, %q) {layout = "bhsd", scale = 0.25}
  %back = Reshape(%att) {shape = dims[b, t, h, w, 8]}
  %space = Transpose(%back) {perm = [0, 4, 1, 2, 3]}
  %x2 = Add(%x1, %space)
  %up = Resize(%x2) {axes = [2, 3, 4], sizes = dims[2*t, 2*h, 2*w], scales = [2.0, 2.0, 2.0],
    mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"}
  %later = Slice(%up) {axes = [2], starts = dims[1], ends = dims[2*t], steps = [1]}
  %c1 = Conv(%later, %w2) {pads = [2, 1, 1, 0, 1, 1]}
  %n1 = GroupNorm(%c1) {groups = 2, epsilon = 0.0009765625}
  %c2 = Conv(%n1, %w3) {pads = [2, 1, 1, 0, 1, 1]}
  %x3 = Add(%c1, %c2)
  %c3 = Conv(%x3, %w4) {pads = [2, 1, 1, 0, 1, 1]}
  %r0 = Reshape(%c3) {shape = dims[b, 3, 2, 2, 2*t-1, 2*h, 2*w]}
  %r1 = Transpose(%r0) {perm = [0, 1, 4, 5, 2, 6, 3]}
  %y = Reshape(%r1) {shape = dims[b, 3, 2*t-1, 4*h, 4*w]}
  return %y
})";

class SpatialTest : public CompilerTest {
 protected:
  CompileOptions spatial(int ranks, std::string_view seed = "") {
    CompileOptions out = options(str_cat("sp=", ranks));
    out.typical_sizes = {{"b", 1}, {"t", 4}, {"h", 16}, {"w", 16}};
    if (!seed.empty()) out.seeds.push_back(*parse_seed(seed));
    return out;
  }

  // All ranks' outputs are those of the uncompiled graph.
  CompiledModel expect_equal(std::string_view text, const CompileOptions& options,
                             const std::vector<Dims>& shapes, double tolerance = 1e-5) {
    CompiledModel model = compile_text(text, options);
    const auto whole = parse_model(text);
    unsigned seed = 1;
    for (const Dims& shape : shapes) {
      NamedTensors tensors;
      tensors[whole->inputs()[0]->name()] = random_f32(shape, seed++);
      SpmdInterpreter interpreter(&ops_);
      const auto right = interpreter.run_whole(*whole, tensors, bind_sizes(model.inputs, tensors));
      EXPECT_TRUE(right.ok()) << right.status().to_string();
      const auto ranks = interpreter.run(model, tensors);
      EXPECT_TRUE(ranks.ok()) << ranks.status().to_string();
      if (!right.ok() || !ranks.ok()) return model;
      for (std::size_t rank = 0; rank < ranks->size(); ++rank) {
        EXPECT_LE(relative_error((*ranks)[rank][0], (*right)[0]), tolerance)
            << "rank " << rank << " of " << options.mesh.to_string() << "\n"
            << print(*model.main);
      }
      expect_counted_bytes(model, tensors, interpreter.moved_bytes());
    }
    return model;
  }

  // The formulas of all exchanges but reductions add up to what was seen to move.
  void expect_counted_bytes(const CompiledModel& model, const NamedTensors& tensors,
                            std::int64_t moved) {
    for (const auto& node : model.main->nodes()) {
      const std::string edge = node->attr_string("edge");
      if (edge == "reflect" || edge == "wrap") return;  // the formula leaves mirrored rows out
    }
    std::int64_t sum = 0;
    for (const ExchangeInfo& exchange : model.exchanges) {
      if (exchange.kind == "AllReduce" || exchange.kind == "ReduceScatter") continue;
      for (int rank = 0; rank < model.mesh.num_ranks(); ++rank) {
        SymbolMap symbols = bind_sizes(model.inputs, tensors);
        model.mesh.bind(rank, &symbols);
        sum += *exchange.sent_bytes.evaluate(symbols);
      }
    }
    EXPECT_EQ(sum, moved);
  }

  // FLOPs of convolutions of the busiest rank, as a share of those of one rank.
  double busiest_share(std::string_view text, const CompiledModel& model, const SymbolMap& sizes) {
    const SizeEstimate size(sizes);
    const double whole = flops_by_type(*parse_model(text), Mesh(), 0, size).at("Conv");
    double most = 0;
    for (int rank = 0; rank < model.mesh.num_ranks(); ++rank) {
      most = std::max(most, flops_by_type(*model.main, model.mesh, rank, size).at("Conv"));
    }
    return most / whole;
  }
};

TEST_F(SpatialTest, ADecoderSplitInHeightWidthOrTimeEqualsOneRank) {
  for (const int ranks : kRanks) {
    for (const char* seed : {"", "latents:2=sp", "latents:3=sp", "latents:4=sp"}) {
      SCOPED_TRACE(str_cat(ranks, " ranks, seed '", seed, "'"));
      expect_equal(kDecoder, spatial(ranks, seed), {{1, 4, 4, 5, 6}, {2, 4, 3, 1, 2}});
    }
  }
}

TEST_F(SpatialTest, TheWorkOfConvolutionsIsShared) {
  const SymbolMap sizes = {{"b", 1}, {"t", 4}, {"h", 16}, {"w", 16}};
  for (const int ranks : kRanks) {
    const auto model = compile_text(kDecoder, spatial(ranks));
    EXPECT_LE(busiest_share(kDecoder, model, sizes), 1.13 / ranks) << ranks << " ranks";
  }
}

TEST_F(SpatialTest, ActivationsAreNotGatheredForNorms) {
  const auto model = compile_text(kDecoder, spatial(4));
  // Keys and values of the attention, and the frames.
  EXPECT_LE(count_nodes(*model.main, "AllGather"), 3);
  EXPECT_EQ(count_nodes(*model.main, "AllReduce"), 4);
  EXPECT_EQ(count_nodes(*model.main, "GroupNorm"), 0);
}

TEST_F(SpatialTest, TheLongestDimensionIsSplitUnlessASeedSaysOtherwise) {
  constexpr std::string_view kTall = R"(graph @g (%x: f32[1, 4, 64, 8]) {
    %w = constant f32[4, 4, 3, 3] data
    %a = Conv(%x, %w) {pads = [1, 1, 1, 1]}
    %y = Conv(%a, %w) {pads = [1, 1, 1, 1]}
    return %y
  })";
  const auto split_of = [](const CompiledModel& model) {
    return model.layouts.at("a").layout.splits.at(0).dim;
  };
  EXPECT_EQ(split_of(compile_text(kTall, spatial(2))), 2);
  EXPECT_EQ(split_of(compile_text(kTall, spatial(2, "x:3=sp"))), 3);
  const std::string wide = [&] {
    std::string text(kTall);
    return text.replace(text.find("64, 8"), 5, "8, 64");
  }();
  EXPECT_EQ(split_of(compile_text(wide, spatial(2))), 3);
}

TEST_F(SpatialTest, OneHaloAConvolutionAndNothingElseMoves) {
  constexpr std::string_view kChain = R"(graph @g (%x: f32[1, 4, h, 8]) {
    %w = constant f32[4, 4, 3, 3] data
    %a = Conv(%x, %w) {pads = [1, 1, 1, 1]}
    %r = Relu(%a)
    %b = Conv(%r, %w) {pads = [1, 1, 1, 1]}
    %y = Add(%a, %b)
    return %y
  })";
  const auto model = compile_text(kChain, spatial(4));
  ASSERT_EQ(model.exchanges.size(), 2U);
  EXPECT_EQ(model.exchanges[0].kind, "Halo");
  EXPECT_EQ(model.exchanges[1].kind, "AllGather");
  // 16 rows: a rank inside sends a row of 4 channels and 8 columns to each neighbour.
  SymbolMap symbols = {{"h", 16}, {"rank.sp", 1}};
  EXPECT_EQ(*model.exchanges[0].sent_bytes.evaluate(symbols), 2 * 4 * 8 * 4);
  symbols["rank.sp"] = 0;
  EXPECT_EQ(*model.exchanges[0].sent_bytes.evaluate(symbols), 4 * 8 * 4);
  EXPECT_THAT(model.explain, HasSubstr("exchange Halo along sp of [r]"));
}

TEST_F(SpatialTest, BatchAndSpaceOnTwoAxes) {
  for (const char* mesh : {"cfg=2,sp=2", "cfg=2,sp=3", "sp=2,cfg=2"}) {
    CompileOptions both = options(mesh);
    both.typical_sizes = {{"b", 2}, {"t", 4}, {"h", 16}, {"w", 16}};
    expect_equal(kDecoder, both, {{2, 4, 3, 5, 4}, {3, 4, 2, 4, 2}});
  }
}

TEST_F(SpatialTest, HeightAndWidthOnTwoAxes) {
  CompileOptions both = options("a=2,b=2");
  both.strategies = {{"a", "spatial"}, {"b", "spatial"}};
  both.seeds = {*parse_seed("latents:3=a"), *parse_seed("latents:4=b")};
  expect_equal(kDecoder, both, {{1, 4, 3, 5, 4}, {2, 4, 2, 3, 1}});
}

TEST_F(SpatialTest, MeansOverSpaceAddUp) {
  constexpr std::string_view kGate = R"(graph @g (%x: f32[b, 4, h, w]) {
    %w0 = constant f32[4, 4, 3, 3] data
    %a = Conv(%x, %w0) {pads = [1, 1, 1, 1]}
    %mean = Reduce(%a) {kind = "mean", axes = [2, 3], keepdims = 1}
    %y = Mul(%a, %mean)
    return %y
  })";
  for (const int ranks : kRanks) {
    const auto model = expect_equal(kGate, spatial(ranks), {{2, 4, 7, 5}, {1, 4, 2, 2}});
    EXPECT_EQ(count_nodes(*model.main, "AllReduce"), 1);
  }
}

// The statistics of a norm far from 0: the variance must not drown in the mean.
TEST_F(SpatialTest, AGroupNormFarFromZeroKeepsItsAccuracy) {
  constexpr std::string_view kNorm = R"(graph @g (%x: f32[2, 6, h, w]) {
    %far = constant f32[] [4096.0]
    %w0 = constant f32[6, 6, 3, 3] data
    %c = Conv(%x, %w0) {pads = [1, 1, 1, 1]}
    %a = Add(%c, %far)
    %y = GroupNorm(%a) {groups = 3, epsilon = 0.0009765625}
    return %y
  })";
  // Of the numbers that the norm sees, 1e-7 * 4096 is lost before it begins.
  for (const int ranks : kRanks) expect_equal(kNorm, spatial(ranks), {{2, 6, 9, 8}}, 2e-3);
}

// Random chains of everything that works along space, in one to three dimensions.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  std::string text() {
    rank_ = pick(1, 3);
    sizes_.clear();
    for (int i = 0; i < rank_; ++i) sizes_.push_back(pick(3, 11));
    shape_ = {2, 4};
    shape_.insert(shape_.end(), sizes_.begin(), sizes_.end());
    const int nodes = pick(2, 6);
    for (int i = 0; i < nodes; ++i) add(i);
    return str_cat("graph @random (%x: f32", shape_, ") {\n", body_, "  return %", last_, "\n}");
  }
  const Dims& shape() const { return shape_; }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  template <class F>
  std::vector<int> list(int count, F&& f) {
    std::vector<int> out;
    for (int i = 0; i < count; ++i) out.push_back(f(i));
    return out;
  }

  void line(std::string_view operation, std::string_view operands, std::string_view attributes) {
    const std::string name = str_cat("v", values_++);
    body_ +=
        str_cat("  %", name, " = ", operation, "(%", last_, operands, ") {", attributes, "}\n");
    last_ = name;
  }

  void add(int number) {
    switch (pick(0, 9)) {
      case 0:
      case 1:
      case 2:
      case 3: return add_conv(number);
      case 4: return add_transposed(number);
      case 5: return add_pool();
      case 6: return add_resize();
      case 7: return add_pad();
      case 8: return add_slice();
      default: line("GroupNorm", "", str_cat("groups = ", pick(1, 2) * 2, ", epsilon = 0.001"));
    }
  }

  void add_conv(int number) {
    std::vector<int> kernel, strides, dilations, begin, end;
    for (const std::int64_t size : sizes_) {
      kernel.push_back(pick(1, 4));
      strides.push_back(pick(0, 3) == 0 ? pick(2, 3) : 1);
      dilations.push_back(pick(1, 2));
      const int extent = dilations.back() * (kernel.back() - 1) + 1;
      begin.push_back(pick(0, extent));
      end.push_back(std::max(pick(0, extent), extent - begin.back() - static_cast<int>(size)));
    }
    const int group = pick(0, 3) == 0 ? 2 : 1;
    Dims weight = {4, 4 / group};
    weight.insert(weight.end(), kernel.begin(), kernel.end());
    body_ += str_cat("  %w", number, " = constant f32", weight, " data\n");
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const int extent = dilations[i] * (kernel[i] - 1) + 1;
      sizes_[i] = (sizes_[i] + begin[i] + end[i] - extent) / strides[i] + 1;
    }
    begin.insert(begin.end(), end.begin(), end.end());
    line("Conv", str_cat(", %w", number),
         str_cat("strides = ", strides, ", dilations = ", dilations, ", pads = ", begin,
                 ", group = ", group));
  }

  void add_transposed(int number) {
    std::vector<int> kernel, strides, begin, end, extra;
    for (std::int64_t& size : sizes_) {
      kernel.push_back(pick(1, 4));
      strides.push_back(pick(1, 3));
      extra.push_back(pick(0, strides.back() - 1));
      begin.push_back(pick(0, kernel.back() - 1));
      // Mostly so that the size is multiplied.
      int rest = kernel.back() + extra.back() - begin.back() - strides.back();
      if (rest < 0) {
        extra.back() -= rest;
        rest = 0;
      }
      end.push_back(rest);
      size = (size - 1) * strides.back() + kernel.back() + extra.back() - begin.back() - rest;
    }
    Dims weight = {4, 4};
    weight.insert(weight.end(), kernel.begin(), kernel.end());
    body_ += str_cat("  %w", number, " = constant f32", weight, " data\n");
    begin.insert(begin.end(), end.begin(), end.end());
    line("ConvTranspose", str_cat(", %w", number),
         str_cat("strides = ", strides, ", pads = ", begin, ", output_padding = ", extra));
  }

  void add_pool() {
    std::vector<int> kernel, strides, pads;
    for (std::int64_t& size : sizes_) {
      kernel.push_back(pick(1, std::min<int>(3, static_cast<int>(size))));
      strides.push_back(pick(1, 2));
      pads.push_back(kernel.back() / 2);
      size = (size + 2 * pads.back() - kernel.back()) / strides.back() + 1;
    }
    std::vector<int> both = pads;
    both.insert(both.end(), pads.begin(), pads.end());
    line("Pool", "",
         str_cat("kind = \"", pick(0, 1) == 0 ? "max" : "average", "\", kernel_shape = ", kernel,
                 ", strides = ", strides, ", pads = ", both, ", count_include_pad = ", pick(0, 1)));
  }

  void add_resize() {
    Dims axes, sizes;
    for (int i = 0; i < rank_; ++i) {
      auto& size = sizes_[static_cast<std::size_t>(i)];
      if (size > 12) continue;
      size *= pick(1, 3);
      axes.push_back(i + 2);
      sizes.push_back(size);
    }
    if (axes.empty()) return;
    const char* modes[] = {"nearest", "linear", "cubic"};
    const char* transformations[] = {"half_pixel", "asymmetric", "pytorch_half_pixel"};
    line("Resize", "",
         str_cat("axes = ", axes, ", sizes = dims", sizes, ", mode = \"", modes[pick(0, 2)],
                 "\", coordinate_transformation_mode = \"", transformations[pick(0, 2)], "\""));
  }

  void add_pad() {
    const auto d = static_cast<std::size_t>(pick(0, rank_ - 1));
    const int before = pick(0, 3);
    const int after = pick(0, 3);
    const char* modes[] = {"constant", "edge", "reflect", "wrap"};
    line("Pad", "",
         str_cat("axes = [", d + 2, "], before = dims[", before, "], after = dims[", after,
                 "], mode = \"", modes[pick(0, 3)], "\""));
    sizes_[d] += before + after;
  }

  void add_slice() {
    const auto d = static_cast<std::size_t>(pick(0, rank_ - 1));
    const int size = static_cast<int>(sizes_[d]);
    const int start = pick(0, std::min(2, size - 1));
    const int step = pick(1, 2);
    line("Slice", "",
         str_cat("axes = [", d + 2, "], starts = dims[", start, "], ends = dims[", size,
                 "], steps = [", step, "]"));
    sizes_[d] = (size - start + step - 1) / step;
  }

  std::mt19937 random_;
  int rank_ = 1;
  int values_ = 0;
  Dims sizes_;
  Dims shape_;
  std::string body_;
  std::string last_ = "x";
};

class RandomSpatialTest : public SpatialTest, public ::testing::WithParamInterface<unsigned> {};

TEST_P(RandomSpatialTest, EqualsOneRankHoweverItIsSplit) {
  RandomGraph random(GetParam());
  const std::string text = random.text();
  // Every dimension at two of the rank counts; other graphs take the others.
  for (std::size_t dim = 2; dim < random.shape().size(); ++dim) {
    for (const std::size_t turn : {std::size_t{0}, std::size_t{2}}) {
      const int ranks = kRanks[(GetParam() + dim + turn) % std::size(kRanks)];
      SCOPED_TRACE(str_cat(ranks, " ranks along ", dim, "\n", text));
      expect_equal(text, spatial(ranks, str_cat("x:", dim, "=sp")), {random.shape()});
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, RandomSpatialTest, ::testing::Range(1U, 41U));

}  // namespace
}  // namespace tutti
