// Short texts of command lines, plans and shapes, each with the reader that its first letter names.
#include <algorithm>

#include "base/utf8.h"
#include "cli/model_options.h"
#include "cli/shape_profile.h"
#include "compiler/compile.h"
#include "compiler/device_profile.h"
#include "fuzz/surface.h"
#include "graph/mesh.h"
#include "graph/printer.h"
#include "graph/shape_text.h"
#include "onnx/numpy_io.h"
#include "server/scheduler/instance_claims.h"

namespace tutti::fuzz {
namespace {

const cli::Operators& operators() {
  static const cli::Operators all;
  return all;
}

void read_mesh(std::string_view text) {
  const auto mesh = Mesh::parse(text);
  if (!check_result(mesh)) return;
  const auto again = Mesh::parse(mesh->to_string());
  require(again.ok() && *again == *mesh, "a mesh that we write reads back");
}

void read_dim(std::string_view text) {
  const auto dim = parse_dim(text);
  if (!check_result(dim)) return;
  const auto again = parse_dim(dim->to_string());
  require(again.ok() && *again == *dim, "a size that we write reads back");
}

void read_type(std::string_view text) {
  const auto type = parse_tensor_type(text);
  if (!check_result(type)) return;
  const auto again = parse_tensor_type(type->to_string());
  require(again.ok() && *again == *type, "a type that we write reads back");
}

void read_graph(std::string_view text) {
  const auto graph = parse_graph(text, operators().ops);
  if (!check_result(graph)) return;
  const auto again = parse_graph(print(**graph), operators().ops);
  require(again.ok(), "a graph that we print reads back");
  require(print(**again) == print(**graph), "and prints the same");
}

void read_npy(std::string_view text) {
  check_result(read_npy_bytes(std::as_bytes(std::span(text))));
}

void read_profile(std::string_view text) {
  const std::vector<PlanTensor> inputs = {
      {"x", DType::kFloat32, {Dim::symbol("n"), 16, Dim::symbol("h") * 2}}};
  const std::string option(text.substr(std::min<std::size_t>(1, text.size())));
  cli::ProfileOptions options;
  switch (text.empty() ? ' ' : text[0]) {
    case 'm': options.min_shapes = {option}; break;
    case 'o': options.opt_shapes = {option}; break;
    case 'x': options.max_shapes = {option}; break;
    default: options.ranges = {option};
  }
  check_result(cli::shape_profile(options, inputs));
}

void read_options(std::string_view view) {
  const std::string text(view);
  check_result(cli::parse_bytes("--memory-limit", text));
  check_result(cli::parse_sizes("--bind-dim", {text}));
  check_result(cli::split_assignment("--strategy", text));
  check_result(parse_seed(view));
  check_result(parse_attention_exchange(view));
  check_result(device_profile(text));
  server::RateLimitOptions limits;
  check_error(limits.add_resource(view));
}

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  if (input[0] == 'n') return read_npy(text);
  // Texts of files are checked where they come in, and those of a shell only go back there.
  if (!is_utf8(text)) return;
  switch (input[0]) {
    case 'm': return read_mesh(text);
    case 'd': return read_dim(text);
    case 's': check_result(parse_shape(text)); return;
    case 't': return read_type(text);
    case 'g': return read_graph(text);
    case 'p': return read_profile(text);
    default: return read_options(text);
  }
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {"mcfg=2,cp=4",
          "mtp=3",
          "da*b+2*c-1",
          "dpart(t,4,rank.cp)",
          "dmax(a,(b+1)/2)%3",
          "s[1, 16, 2*h, w]",
          "tf32[batch, 16]",
          "tbf16[]",
          "tf32[2*h,part(t,2,rank.cp)]",
          "g graph \"g\" (%x: f32[n, 4]) {\n  %y = Add(%x, %x)\n  return %y\n}\n",
          "n\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"s +
              std::string(60, ' ') + "\n0123456789abcdef",
          "p n=1:2:4,h=8:8:8",
          "pmx:1x16x8",
          "pxx:4x16x16",
          "o24G",
          "oblocks.0:1=cp",
          "oR:2:1",
          "ocp=ulysses"};
}

const Registration registration({"texts", run, seeds});

}  // namespace
}  // namespace tutti::fuzz
