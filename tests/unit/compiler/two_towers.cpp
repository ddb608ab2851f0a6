#include "two_towers.h"

#include "base/str_cat.h"

namespace tutti {
namespace {

class Writer {
 public:
  explicit Writer(const TwoTowers& model)
      : m_(model), width_(m_.heads * m_.head_dim), rows_(m_.words + m_.patches) {}

  std::string write() {
    out_ = str_cat("graph @two_towers (%ids: i64[", m_.words, "], %patches: f32[", m_.patches,
                   ", 6], %time: f32[", m_.patches, "]) {\n");
    pack();
    rotary_tables();
    std::string text = "%und";
    std::string video = "%gen";
    for (int layer = 0; layer < m_.layers; ++layer) block(str_cat("%l", layer), &text, &video);
    line("%tn = RMSNormalization(", text, ") {axis = 1, epsilon = 0.0009765625}");
    line("%vn = RMSNormalization(", video, ") {axis = 1, epsilon = 0.0009765625}");
    line("%last = Concat(%tn, %vn) {axis = 0}");
    line("%read = Gather(%last, %video_rows) {axis = 0}");
    linear("%y", "%read", width_, 6);
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

  void rows(const std::string& name, int first, int count, std::string_view shape) {
    std::string numbers;
    for (int i = 0; i < count; ++i) numbers += str_cat(i > 0 ? ", " : "", first + i);
    line(name, " = constant i64", shape, " [", numbers, "]");
  }

  // As exporters write zeros(..); x[text] = a; x[video] = b; x[:n]; x[n:].
  void pack() {
    line("%table = constant f32[10, ", width_, "] data");
    line("%words = Gather(%table, %ids) {axis = 0}");
    linear("%embedded", "%patches", 6, width_);
    line("%t1 = Reshape(%time) {shape = dims[", m_.patches, ", 1]}");
    linear("%noise", "%t1", 1, width_);
    rows("%noisy_row", 0, m_.patches, str_cat("[", m_.patches, ", 1]"));
    line("%noisy = Expand(%noisy_row) {shape = dims[", m_.patches, ", ", width_, "]}");
    line("%timed = ScatterElements(%embedded, %noisy, %noise) {axis = 0, reduction = \"add\"}");
    rows("%text_index", 0, m_.words, str_cat("[", m_.words, ", 1]"));
    rows("%video_index", m_.words, m_.patches, str_cat("[", m_.patches, ", 1]"));
    rows("%video_rows", m_.words, m_.patches, str_cat("[", m_.patches, "]"));
    line("%nought = constant f32[] [0.0]");
    line("%empty = Fill(%nought) {shape = dims[", rows_, ", ", width_, "]}");
    line("%with_text = ScatterND(%empty, %text_index, %words)");
    line("%packed = ScatterND(%with_text, %video_index, %timed)");
    slice("%und", "%packed", 0, m_.words);
    slice("%gen", "%packed", m_.words, rows_);
  }

  void slice(const std::string& y, const std::string& x, int start, int end) {
    line(y, " = Slice(", x, ") {axes = [0], starts = dims[", start, "], ends = dims[", end,
         "], steps = [1]}");
  }

  void rotary_tables() {
    line("%zero = constant f32[] [0.0]");
    line("%step = constant f32[] [0.125]");
    line("%places = Iota(%zero, %step) {size = dims[", rows_, "]}");
    line("%angles = Reshape(%places) {shape = dims[", rows_, ", 1, 1]}");
    line("%cos = Cos(%angles)");
    line("%sin = Sin(%angles)");
    slice("%cos_t", "%cos", 0, m_.words);
    slice("%sin_t", "%sin", 0, m_.words);
    slice("%cos_v", "%cos", m_.words, rows_);
    slice("%sin_v", "%sin", m_.words, rows_);
  }

  // [s, n*d] -> [s, n, d], normalised and turned.
  std::string turned(const std::string& y, const std::string& x, int tokens, int heads,
                     const std::string& tower) {
    line(y, ".h = Reshape(", x, ") {shape = dims[", tokens, ", ", heads, ", ", m_.head_dim, "]}");
    line(y, ".n = RMSNormalization(", y, ".h) {axis = 2, epsilon = 0.0009765625}");
    const int half = m_.head_dim / 2;
    const auto part = [&](const char* name, int start, int end) {
      line(y, name, " = Slice(", y, ".n) {axes = [2], starts = dims[", start, "], ends = dims[",
           end, "], steps = [1]}");
    };
    part(".a", 0, half);
    part(".b", half, m_.head_dim);
    line(y, ".m = Neg(", y, ".b)");
    line(y, ".r = Concat(", y, ".m, ", y, ".a) {axis = 2}");
    line(y, ".c = Mul(", y, ".n, %cos_", tower, ")");
    line(y, ".s = Mul(", y, ".r, %sin_", tower, ")");
    line(y, ".y = Add(", y, ".c, ", y, ".s)");
    return y + ".y";
  }

  struct Projected {
    std::string q, k, v;
  };
  Projected project(const std::string& name, const std::string& x, int tokens,
                    const std::string& tower) {
    const int kv_width = m_.kv_heads * m_.head_dim;
    linear(name + ".q", x, width_, width_);
    linear(name + ".k", x, width_, kv_width);
    linear(name + ".v", x, width_, kv_width);
    line(name, ".vh = Reshape(", name, ".v) {shape = dims[", tokens, ", ", m_.kv_heads, ", ",
         m_.head_dim, "]}");
    return {turned(name + ".qt", name + ".q", tokens, m_.heads, tower),
            turned(name + ".kt", name + ".k", tokens, m_.kv_heads, tower), name + ".vh"};
  }

  std::string attend(const std::string& name, const Projected& x, int queries, int keys,
                     bool is_causal) {
    const auto batched = [&](const std::string& y, const std::string& value, int tokens,
                             int heads) {
      line(y, " = Reshape(", value, ") {shape = dims[1, ", tokens, ", ", heads, ", ", m_.head_dim,
           "]}");
      return y;
    };
    const std::string q = batched(name + ".q4", x.q, queries, m_.heads);
    const std::string k = batched(name + ".k4", x.k, keys, m_.kv_heads);
    const std::string v = batched(name + ".v4", x.v, keys, m_.kv_heads);
    line(name, ".o = Attention(", q, ", ", k, ", ", v, ") {layout = \"bshd\", scale = 0.5, ",
         "is_causal = ", is_causal ? 1 : 0, "}");
    line(name, ".of = Reshape(", name, ".o) {shape = dims[", queries, ", ", width_, "]}");
    linear(name + ".out", name + ".of", width_, width_);
    return name + ".out";
  }

  void finish(const std::string& name, const std::string& attended, std::string* x) {
    line(name, ".x1 = Add(", *x, ", ", attended, ")");
    line(name, ".n2 = RMSNormalization(", name, ".x1) {axis = 1, epsilon = 0.0009765625}");
    linear(name + ".gate", name + ".n2", width_, 2 * width_);
    linear(name + ".up", name + ".n2", width_, 2 * width_);
    line(name, ".act = Silu(", name, ".gate)");
    line(name, ".mul = Mul(", name, ".act, ", name, ".up)");
    linear(name + ".down", name + ".mul", 2 * width_, width_);
    line(name, ".x2 = Add(", name, ".x1, ", name, ".down)");
    *x = name + ".x2";
  }

  void block(const std::string& name, std::string* text, std::string* video) {
    const std::string t = name + ".t";
    const std::string v = name + ".v";
    line(t, ".n1 = RMSNormalization(", *text, ") {axis = 1, epsilon = 0.0009765625}");
    line(v, ".n1 = RMSNormalization(", *video, ") {axis = 1, epsilon = 0.0009765625}");
    const Projected und = project(t, t + ".n1", m_.words, "t");
    const Projected gen = project(v, v + ".n1", m_.patches, "v");
    line(name, ".k = Concat(", und.k, ", ", gen.k, ") {axis = 0}");
    line(name, ".v = Concat(", und.v, ", ", gen.v, ") {axis = 0}");
    const std::string causal = attend(t + ".att", und, m_.words, m_.words, true);
    const std::string full =
        attend(v + ".att", {gen.q, name + ".k", name + ".v"}, m_.patches, rows_, false);
    finish(t, causal, text);
    finish(v, full, video);
  }

  const TwoTowers& m_;
  const int width_;
  const int rows_;
  std::string out_;
};

}  // namespace

std::string TwoTowers::text() const { return Writer(*this).write(); }

}  // namespace tutti
