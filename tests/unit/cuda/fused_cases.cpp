#include "case_table.h"

namespace tutti::cuda {
namespace {

// One Fused node; `inputs` are the graph's and the body's.
void fused_node(CaseTable& table, const std::string& name, const std::string& inputs,
                const std::string& body, const std::string& results, Types types = {"f32"}) {
  std::string names;
  for (std::size_t at = inputs.find('%'); at != std::string::npos; at = inputs.find('%', at + 1)) {
    names += str_cat(names.empty() ? "" : ", ", inputs.substr(at, inputs.find(':', at) - at));
  }
  table.add(name,
            str_cat("graph (", inputs, ") {\n ", results, " = Fused(", names, ") {body = graph (",
                    inputs, ") {\n", body, "\n return ", results, "\n}}\n return ", results, "\n}"),
            std::move(types));
}

}  // namespace

void add_fused_cases(CaseTable& table) {
  const std::string rms = "%n = RMSNormalization(%x, %w) {axis = 3, epsilon = 1e-6}\n";
  const std::string rotate = "%l = Mul(%n, %c)\n %r = Mul(%t, %s)\n %y = Add(%l, %r)";
  for (const int d : {16, 64, 128}) {
    const std::string x = str_cat("%x: $T[2, 7, 3, ", d, "]");
    const std::string operands =
        str_cat(x, ", %w: $T[", d, "], %c: $T[7, 1, ", d, "], %s: $T[1, 7, 1, ", d, "]");
    const std::string halves =
        str_cat("%a, %b = Split(%n) {axis = 3, sizes = dims[", d / 2, ", ", d / 2,
                "]}\n %m = Neg(%b)\n %t = Concat(%m, %a) {axis = 3}\n ");
    fused_node(table, str_cat("FusedHeadsHalves", d), operands, rms + halves + rotate, "%y",
               kFloats);
    const std::string pairs = str_cat("%p = Reshape(%n) {shape = dims[2, 7, 3, ", d / 2,
                                      ", 2]}\n %a, %b = Split(%p) {axis = 4, sizes = dims[1, "
                                      "1]}\n %m = Neg(%b)\n %q = Concat(%m, "
                                      "%a) {axis = 4}\n %t = Reshape(%q) {shape = dims[2, 7, 3, ",
                                      d, "]}\n ");
    fused_node(table, str_cat("FusedHeadsPairs", d), operands, rms + pairs + rotate, "%y", kFloats);
    // Tables with one number a pair; even and odd elements by slices.
    const std::string half = std::to_string(d / 2);
    fused_node(
        table, str_cat("FusedHeadsSteps", d),
        str_cat(x, ", %w: $T[", d, "], %c: $T[7, 1, ", half, "], %s: $T[7, 1, ", half, "]"),
        str_cat(
            rms, "%a = Slice(%n) {axes = [3], starts = dims[0], ends = dims[", d,
            "], steps = [2]}\n %b = Slice(%n) {axes = [3], starts = dims[1], ends = dims[", d,
            "], steps = [2]}\n %ac = Mul(%a, %c)\n %bs = Mul(%b, %s)\n %as = Mul(%a, %s)\n %bc = "
            "Mul(%b, %c)\n %e = Sub(%ac, %bs)\n %o = Add(%as, %bc)\n %e1 = Reshape(%e) {shape = "
            "dims[2, 7, 3, ",
            half, ", 1]}\n %o1 = Reshape(%o) {shape = dims[2, 7, 3, ", half,
            ", 1]}\n %eo = Concat(%e1, %o1) {axis = 4}\n %y = Reshape(%eo) {shape = dims[2, 7, "
            "3, ",
            d, "]}"),
        "%y", kFloats);
  }
  // A norm over all heads, then rotary embedding of each.
  for (const int h : {3, 8}) {
    const int width = h * 64;
    fused_node(
        table, str_cat("FusedAllHeads", h),
        str_cat("%x: $T[2, 5, ", width, "], %w: $T[", width,
                "], %c: $T[5, 1, 64], %s: $T[5, 1, 64]"),
        str_cat(
            "%k = RMSNormalization(%x, %w) {axis = 2, epsilon = 1e-6}\n %n = Reshape(%k) {shape "
            "= dims[2, 5, ",
            h,
            ", 64]}\n %a, %b = Split(%n) {axis = 3, sizes = dims[32, 32]}\n %m = Neg(%b)\n %t "
            "= Concat(%m, %a) {axis = 3}\n ",
            rotate),
        "%y", kFloats);
  }
  // Residual, norm, modulation; in 16 bits as exporters write it, with a norm in f32.
  for (const int n : {5, 24, 256, 1000, 4096, 5120}) {
    const std::string x = str_cat("$T[2, 6, ", n, "]");
    const std::string one = str_cat("$T[2, 1, ", n, "]");
    const std::string operands =
        str_cat("%x: ", x, ", %z: ", x, ", %g: ", one, ", %s: ", one, ", %b: $T[", n, "]");
    fused_node(
        table, str_cat("FusedModulation", n), operands,
        "%gz = Mul(%g, %z)\n %r = Add(%x, %gz)\n %rf = Cast(%r) {to = \"f32\"}\n %n = "
        "LayerNormalization(%rf) {axis = 2, epsilon = 1e-5}\n %ns = Cast(%n) {to = \"$T\"}\n %m "
        "= "
        "Pointwise(%ns, %s, %b) {body = graph (%p: $T[], %q: $T[], %o: $T[]) {\n %one = constant "
        "$T[] [1.0]\n %u = Add(%q, %one)\n %v = Mul(%p, %u)\n %w = Add(%v, %o)\n return %w\n }}",
        "%r, %m", {"f32", "f16", "bf16"});
  }
  // No norm: halves of one product's result, and a row without movement.
  for (const int n : {6, 96, 12288}) {
    fused_node(table, str_cat("FusedGate", n), str_cat("%x: $T[3, 5, ", 2 * n, "]"),
               str_cat("%g, %u = Split(%x) {axis = 2, sizes = dims[", n, ", ", n,
                       "]}\n %a = Silu(%g)\n %y = Mul(%a, %u)"),
               "%y", kFloats);
  }
  fused_node(
      table, "FusedRotary", "%n: $T[2, 5, 3, 32], %c: f32[5, 1, 32], %s: f32[5, 1, 32]",
      "%a, %b = Split(%n) {axis = 3, sizes = dims[16, 16]}\n %m = Neg(%b)\n %t = Concat(%m, %a) "
      "{axis = 3}\n %nf = Cast(%n) {to = \"f32\"}\n %tf = Cast(%t) {to = \"f32\"}\n %l = "
      "Mul(%nf, "
      "%c)\n %r = Mul(%tf, %s)\n %y = Add(%l, %r)",
      "%y", {"f32", "f16", "bf16"});
  // Many rows: several rounds of the grid.
  fused_node(table, "FusedManyRows", "%x: $T[70001, 8], %w: $T[8]",
             "%n = RMSNormalization(%x, %w) {axis = 1, epsilon = 1e-6}\n %y = Silu(%n)", "%y",
             {"f32", "bf16"});
  // Two products of one operand, combined; sizes with tails, odd pairs of row tiles, and ones
  // that only the nodes can do.
  for (const auto& [m, k, n] :
       {std::tuple{1, 64, 128}, std::tuple{300, 136, 256}, std::tuple{128, 512, 128},
        std::tuple{2500, 256, 1408}, std::tuple{40, 64, 96}, std::tuple{9, 12, 128}}) {
    for (const bool transposes : {false, true}) {
      const std::string w =
          transposes ? str_cat("$T[", n, ", ", k, "]") : str_cat("$T[", k, ", ", n, "]");
      const std::string form = transposes ? " {transpose_w = 1}" : "";
      const std::string gate = m > 200 ? "Silu(%g)" : "Gelu(%g) {approximate = \"tanh\"}";
      fused_node(table, str_cat("FusedProducts", transposes ? "Transposed" : "", m, "x", k, "x", n),
                 str_cat("%x: $T[1, ", m, ", ", k, "], %v: ", w, ", %w: ", w),
                 str_cat("%u = Linear(%x, %v)", form, "\n %g = Linear(%x, %w)", form,
                         "\n %a = ", gate, "\n %y = Mul(%a, %u)"),
                 "%y", {"bf16", "f16", "f32"});
    }
  }
  // What is no row runs node by node: tokens that are joined, two norms, a transposed result.
  fused_node(table, "FusedByNodes", "%x: $T[2, 6, 16], %z: $T[2, 3, 16], %w: $T[16]",
             "%n = RMSNormalization(%x, %w) {axis = 2, epsilon = 1e-6}\n %k = "
             "RMSNormalization(%z, %w) {axis "
             "= 2, epsilon = 1e-6}\n %j = Concat(%n, %k) {axis = 1}\n %v = Reshape(%j) {shape = "
             "dims[2, 9, "
             "4, 4]}\n %t = Transpose(%v) {perm = [0, 2, 1, 3]}\n %y = Silu(%t)",
             "%y, %n", kFloats);
}

}  // namespace tutti::cuda
