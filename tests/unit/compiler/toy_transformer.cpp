#include "toy_transformer.h"

#include "base/str_cat.h"

namespace tutti {
namespace {

// "frames, height, width" -> "frames*height*width"
std::string product_text(const std::string& dims) {
  std::string out;
  for (const char c : dims) {
    if (c == ',') {
      out += '*';
    } else if (c != ' ') {
      out += c;
    }
  }
  return out;
}

class Writer {
 public:
  explicit Writer(const ToyTransformer& toy) : toy_(toy), width_(toy.heads * toy.head_dim) {
    tokens_ = product_text(toy.tokens);
  }

  std::string write() {
    out_ = str_cat("graph @toy (%latents: f32[", toy_.batch, ", 4, ", toy_.tokens, "], %time: f32[",
                   toy_.batch, "]");
    if (toy_.has_text) out_ += str_cat(", %text: f32[", toy_.batch, ", words, 8]");
    out_ += ") {\n";
    line("%flat = Reshape(%latents) {shape = dims[", toy_.batch, ", 4, ", tokens_, "]}");
    line("%rows = Transpose(%flat) {perm = [0, 2, 1]}");
    linear("%x0", "%rows", 4, width_);
    // One number of the time for each channel: a stand-in for the embedding.
    line("%t1 = Reshape(%time) {shape = dims[", toy_.batch, ", 1, 1]}");
    linear("%shift", "%t1", 1, width_);
    rotary_tables();
    if (toy_.has_text) linear("%context", "%text", 8, width_);
    std::string x = "%x0";
    for (int layer = 0; layer < toy_.layers; ++layer) x = block(layer, x);
    line("%last = LayerNormalization(", x, ") {axis = 2, epsilon = 0.0009765625}");
    linear("%velocity", "%last", width_, 4);
    line("%columns = Transpose(%velocity) {perm = [0, 2, 1]}");
    line("%sample = Reshape(%columns) {shape = dims[", toy_.batch, ", 4, ", toy_.tokens, "]}");
    return out_ + "  return %sample\n}\n";
  }

 private:
  template <class... Args>
  void line(const Args&... args) {
    out_ += str_cat("  ", args..., "\n");
  }

  void linear(const std::string& y, const std::string& x, int from, int to) {
    const std::string w = str_cat(y, ".w");
    line(w, " = constant f32[", from, ", ", to, "] data");
    line(y, " = MatMul(", x, ", ", w, ")");
  }

  void rotary_tables() {
    line("%zero = constant f32[] [0.0]");
    line("%step = constant f32[] [0.125]");
    line("%places = Iota(%zero, %step) {size = dims[", tokens_, "]}");
    line("%angles = Reshape(%places) {shape = dims[", tokens_, ", 1]}");
    line("%cos = Cos(%angles)");
    line("%sin = Sin(%angles)");
  }

  // [batch, s, n*d] -> [batch, n, s, d], normalised and turned when asked.
  std::string heads(const std::string& name, const std::string& x, int count,
                    const std::string& tokens, bool rotate) {
    const int half = toy_.head_dim / 2;
    line(name, ".h = Reshape(", x, ") {shape = dims[", toy_.batch, ", ", tokens, ", ", count, ", ",
         toy_.head_dim, "]}");
    line(name, ".t = Transpose(", name, ".h) {perm = [0, 2, 1, 3]}");
    if (!rotate) return name + ".t";
    line(name, ".n = RMSNormalization(", name, ".t) {axis = 3, epsilon = 0.0009765625}");
    line(name, ".a: f32[", toy_.batch, ", ", count, ", ", tokens, ", ", half, "], ", name,
         ".b: f32[", toy_.batch, ", ", count, ", ", tokens, ", ", half, "] = Split(", name,
         ".n) {axis = 3, sizes = dims[", half, ", ", half, "]}");
    line(name, ".ac = Mul(", name, ".a, %cos)");
    line(name, ".bs = Mul(", name, ".b, %sin)");
    line(name, ".l = Sub(", name, ".ac, ", name, ".bs)");
    line(name, ".bc = Mul(", name, ".b, %cos)");
    line(name, ".as = Mul(", name, ".a, %sin)");
    line(name, ".r = Add(", name, ".bc, ", name, ".as)");
    line(name, ".y = Concat(", name, ".l, ", name, ".r) {axis = 3}");
    return name + ".y";
  }

  std::string attention(const std::string& name, const std::string& x, const std::string& context,
                        const std::string& context_tokens, bool rotate) {
    const int kv_width = toy_.kv_heads * toy_.head_dim;
    linear(name + ".wq", x, width_, width_);
    linear(name + ".wk", context, width_, kv_width);
    linear(name + ".wv", context, width_, kv_width);
    const std::string q = heads(name + ".q", name + ".wq", toy_.heads, tokens_, rotate);
    const std::string k = heads(name + ".k", name + ".wk", toy_.kv_heads, context_tokens, rotate);
    const std::string v = heads(name + ".v", name + ".wv", toy_.kv_heads, context_tokens, false);
    line(name, ".o = Attention(", q, ", ", k, ", ", v, ") {layout = \"bhsd\", scale = 0.5}");
    line(name, ".ot = Transpose(", name, ".o) {perm = [0, 2, 1, 3]}");
    line(name, ".of = Reshape(", name, ".ot) {shape = dims[", toy_.batch, ", ", tokens_, ", ",
         width_, "]}");
    linear(name + ".out", name + ".of", width_, width_);
    return name + ".out";
  }

  std::string block(int layer, std::string x) {
    const std::string name = str_cat("%l", layer);
    line(name, ".n1 = LayerNormalization(", x, ") {axis = 2, epsilon = 0.0009765625}");
    line(name, ".m1 = Add(", name, ".n1, %shift)");
    const std::string self = attention(name + ".self", name + ".m1", name + ".m1", tokens_, true);
    line(name, ".x1 = Add(", x, ", ", self, ")");
    x = name + ".x1";
    if (toy_.has_text) {
      line(name, ".n2 = LayerNormalization(", x, ") {axis = 2, epsilon = 0.0009765625}");
      const std::string cross =
          attention(name + ".cross", name + ".n2", "%context", "words", false);
      line(name, ".x2 = Add(", x, ", ", cross, ")");
      x = name + ".x2";
    }
    linear(name + ".up", x, width_, 2 * width_);
    line(name, ".g: f32[", toy_.batch, ", ", tokens_, ", ", width_, "], ", name, ".u: f32[",
         toy_.batch, ", ", tokens_, ", ", width_, "] = Split(", name,
         ".up) {axis = 2, sizes = dims[", width_, ", ", width_, "]}");
    line(name, ".gs = Silu(", name, ".g)");
    line(name, ".gu = Mul(", name, ".gs, ", name, ".u)");
    linear(name + ".down", name + ".gu", width_, width_);
    line(name, ".x3 = Add(", x, ", ", name, ".down)");
    return name + ".x3";
  }

  const ToyTransformer& toy_;
  const int width_;
  std::string tokens_;
  std::string out_;
};

}  // namespace

std::string ToyTransformer::text() const { return Writer(*this).write(); }

}  // namespace tutti
