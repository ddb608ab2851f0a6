// Streams of text and video that share projections: how often ranks exchange, and that nothing
// changes.
#include <gmock/gmock.h>

#include "base/str_cat.h"
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr int kHeads = 4;
constexpr int kHeadDim = 4;
constexpr int kWidth = kHeads * kHeadDim;

enum class Stream {
  kJoinedInLayers,  // joined in front of each layer's projections, cut apart behind the last one
  kJoinedOnce,      // one stream from the first layer to the last, cut apart behind it
  kReadWhole,       // the same, not cut
  kRotatedInParts,  // one stream, whose video part alone gets rotary angles
};

// A model of `layers` attentions over text and video.
class Model {
 public:
  Model(Stream stream, int layers, std::string words = "5", std::string patches = "11")
      : stream_(stream), layers_(layers), words_(std::move(words)), patches_(std::move(patches)) {}

  std::string text() {
    out_ = str_cat("graph @joined (%text: f32[", words_, ", 6], %video: f32[", patches_,
                   ", 6], %angles: f32[", patches_, ", 1, ", kHeadDim, "]) {\n");
    linear("%t", "%text", 6, kWidth);
    linear("%v", "%video", 6, kWidth);
    std::string t = "%t";
    std::string v = "%v";
    std::string one = join("%one", t, v);
    for (int layer = 0; layer < layers_; ++layer) {
      const std::string l = str_cat("%l", layer);
      if (stream_ == Stream::kJoinedInLayers) {
        const std::string y = attention(l, join(l + ".in", t, v));
        cut(l, y);
        line(l, ".t2 = Add(", t, ", ", l, ".t)");
        line(l, ".v2 = Add(", v, ", ", l, ".v)");
        t = l + ".t2";
        v = l + ".v2";
        continue;
      }
      line(l, ".2 = Add(", one, ", ", attention(l, one), ")");
      one = l + ".2";
    }
    if (stream_ != Stream::kJoinedInLayers) {
      cut("%end", one);
      v = stream_ == Stream::kReadWhole ? one : "%end.v";
    }
    linear("%y", v, kWidth, 6);
    return out_ + "  return %y\n}\n";
  }

 private:
  template <class... Args>
  void line(const Args&... args) {
    out_ += str_cat("  ", args..., "\n");
  }

  void linear(const std::string& y, const std::string& x, int from, int to) {
    line(y, ".w = constant f32[", from, ", ", to, "] data");
    line(y, " = MatMul(", x, ", ", y, ".w)");
  }

  std::string join(const std::string& name, const std::string& t, const std::string& v) {
    line(name, " = Concat(", t, ", ", v, ") {axis = 0}");
    return name;
  }

  void cut(const std::string& name, const std::string& x) {
    line(name, ".t, ", name, ".v = Split(", x, ") {axis = 0, sizes = dims[", words_, ", ", patches_,
         "]}");
  }

  std::string heads(const std::string& name, const std::string& x, bool is_rotated) {
    linear(name + ".p", x, kWidth, kWidth);
    line(name, ".h = Reshape(", name, ".p) {shape = dims[", words_, " + ", patches_, ", ", kHeads,
         ", ", kHeadDim, "]}");
    std::string y = name + ".h";
    if (is_rotated && stream_ == Stream::kRotatedInParts) {
      cut(name + ".c", y);
      line(name, ".r = Mul(", name, ".c.v, %angles)");
      y = join(name + ".j", name + ".c.t", name + ".r");
    }
    line(name, ".b = Reshape(", y, ") {shape = dims[1, ", words_, " + ", patches_, ", ", kHeads,
         ", ", kHeadDim, "]}");
    return name + ".b";
  }

  std::string attention(const std::string& l, const std::string& x) {
    line(l, ".n = RMSNormalization(", x, ") {axis = 1, epsilon = 0.0009765625}");
    const std::string q = heads(l + ".q", l + ".n", true);
    const std::string k = heads(l + ".k", l + ".n", true);
    const std::string v = heads(l + ".v", l + ".n", false);
    line(l, ".a = Attention(", q, ", ", k, ", ", v,
         ") {scale = 0.5, is_causal = 0, layout = \"bshd\"}");
    line(l, ".f = Reshape(", l, ".a) {shape = dims[", words_, " + ", patches_, ", ", kWidth, "]}");
    linear(l + ".o", l + ".f", kWidth, kWidth);
    return l + ".o";
  }

  Stream stream_;
  int layers_;
  std::string words_;
  std::string patches_;
  std::string out_;
};

using Counts = std::map<std::string, int>;

// Of a call; what depends on the prompt alone is exchanged once a prompt.
Counts exchanges_of(const CompiledModel& compiled) {
  Counts kinds;
  for (const ExchangeInfo& exchange : compiled.exchanges) {
    if (!exchange.in_prologue) ++kinds[exchange.kind];
  }
  return kinds;
}

class JoinedStreamsTest : public CompilerTest {
 protected:
  Counts exchanges_of_model(Model model, std::string_view mesh) {
    return exchanges_of(compile_text(model.text(), options(mesh)));
  }
};

TEST_F(JoinedStreamsTest, ALayerThatJoinsInFrontOfItsProjectionsCostsTwoExchanges) {
  for (const int layers : {1, 3}) {
    EXPECT_EQ(exchanges_of_model(Model(Stream::kJoinedInLayers, layers), "cp=4"),
              (Counts{{"AllToAll", 2 * layers}, {"AllGather", 1}}));
  }
}

TEST_F(JoinedStreamsTest, AStreamThatIsJoinedOnceStaysOne) {
  const CompiledModel compiled = compile_text(Model(Stream::kReadWhole, 2).text(), options("cp=4"));
  EXPECT_THAT(compiled.explain, HasSubstr("l0.q.p: f32 [16/cp, 16]"));
  EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllToAll", 4}, {"AllGather", 1}}));
}

// Pieces of the whole would not be pieces of what is cut out in the end.
TEST_F(JoinedStreamsTest, AStreamThatIsTakenApartAgainIsInSegments) {
  const CompiledModel compiled =
      compile_text(Model(Stream::kJoinedOnce, 2).text(), options("cp=4"));
  EXPECT_THAT(compiled.explain, HasSubstr("l0.q.p: f32 [16/cp(5 | 11), 16]"));
  EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllToAll", 4}, {"AllGather", 1}}));
  // 11 video tokens of 6 features, to each of 3 others, and no text.
  const ExchangeInfo& last = compiled.exchanges.back();
  double bytes = 0;
  for (int rank = 0; rank < 4; ++rank) {
    SymbolMap symbols;
    compiled.mesh.bind(rank, &symbols);
    bytes += static_cast<double>(*last.sent_bytes.evaluate(symbols));
  }
  EXPECT_EQ(bytes, 11 * 6 * 4 * 3);
}

TEST_F(JoinedStreamsTest, SizesMayBeSymbols) {
  EXPECT_EQ(exchanges_of_model(Model(Stream::kJoinedInLayers, 2, "words", "patches"), "cp=3"),
            (Counts{{"AllToAll", 4}, {"AllGather", 1}}));
}

TEST_F(JoinedStreamsTest, AnyNumberOfRanksGivesTheOneRankResult) {
  for (const Stream stream : {Stream::kJoinedInLayers, Stream::kJoinedOnce, Stream::kReadWhole,
                              Stream::kRotatedInParts}) {
    const std::string text = Model(stream, 2).text();
    const NamedTensors inputs = {{"text", random_f32({5, 6}, 1)},
                                 {"video", random_f32({11, 6}, 2)},
                                 {"angles", random_f32({11, 1, kHeadDim}, 3)}};
    const auto whole = parse_model(text);
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*whole, inputs, {});
    ASSERT_TRUE(right.ok()) << right.status().to_string();
    for (const char* mesh : {"cp=2", "cp=3", "cp=4", "cp=8"}) {
      const auto found = interpreter.run(compile_text(text, options(mesh)), inputs);
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      for (const auto& outputs : *found) {
        EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5) << mesh;
      }
    }
  }
}

// Attention over the places of each frame, then over the frames of each place.
TEST_F(JoinedStreamsTest, AttentionOverFramesFollowsTheSplitOfPlaces) {
  const std::string text = R"(graph @g (%x: f32[3, 10, 16]) {
    %w = constant f32[16, 16] data
    %p = MatMul(%x, %w)
    %h = Reshape(%p) {shape = dims[3, 10, 4, 4]}
    %a = Attention(%h, %h, %h) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %t = Transpose(%a) {perm = [1, 0, 2, 3]}
    %b = Attention(%t, %t, %t) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %y = Reshape(%b) {shape = dims[10, 3, 16]}
    return %y
  })";
  const CompiledModel compiled = compile_text(text, options("cp=4"));
  Counts kinds = exchanges_of(compiled);
  EXPECT_EQ(kinds, (Counts{{"AllToAll", 2}, {"AllGather", 1}})) << compiled.explain;
}

}  // namespace
}  // namespace tutti
