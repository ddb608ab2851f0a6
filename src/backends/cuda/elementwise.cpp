#include "backends/cuda/elementwise.h"

#include <algorithm>

#include "runtime/strides.h"

namespace tutti::cuda {
namespace {

// How an operand is read where V elements of the last dimension go together.
enum class Access { kScalar, kDense, kPacked, kSame };

struct Operand {
  Access access = Access::kDense;
  Dims strides;
};

struct Layout {
  Dims dims;  // collapsed; the last one in packs of `pack`
  std::vector<Operand> operands;
  std::int64_t pack = 1;
  bool is_wide = false;
};

bool all_zero(const Dims& strides) {
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t s) { return s == 0; });
}

// The last dimension can be cut into packs: every operand runs through it evenly or stays, and its
// rows begin at multiples of the pack.
bool packs(const Dims& dims, const std::vector<Dims>& strides, std::int64_t pack) {
  if (dims.back() % pack != 0) return false;
  return std::all_of(strides.begin(), strides.end(), [&](const Dims& operand) {
    if (operand.back() > 1) return false;
    if (operand.back() == 0) return true;
    return std::all_of(operand.begin(), operand.end() - 1,
                       [&](std::int64_t stride) { return stride % pack == 0; });
  });
}

Result<Layout> lay_out(const ElementwiseSpec& spec) {
  std::vector<Dims> strides;
  std::size_t smallest = 8;
  for (const TensorDesc& input : spec.inputs) {
    TUTTI_ASSIGN_OR_RETURN(Dims operand, broadcast_strides(input.dims, spec.dims));
    if (!all_zero(operand)) smallest = std::min(smallest, dtype_size(input.dtype));
    strides.push_back(std::move(operand));
  }
  for (const DType dtype : spec.outputs) smallest = std::min(smallest, dtype_size(dtype));
  strides.push_back(contiguous_strides(spec.dims));
  Layout layout;
  layout.dims = collapse(spec.dims, &strides);
  const Dims dense = strides.back();
  const auto most = static_cast<std::int64_t>(smallest >= 4 ? 4 : smallest == 2 ? 8 : 16);
  for (std::int64_t pack = most; pack > 1; pack /= 2) {
    if (!packs(layout.dims, strides, pack)) continue;
    layout.pack = pack;
    break;
  }
  strides.pop_back();
  std::int64_t largest = element_count(spec.dims);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    largest = std::max(largest, spec.inputs[i].element_count());
    const Access access = all_zero(strides[i])     ? Access::kScalar
                          : strides[i] == dense    ? Access::kDense
                          : strides[i].back() == 0 ? Access::kSame
                                                   : Access::kPacked;
    layout.operands.push_back({access, std::move(strides[i])});
  }
  layout.is_wide = needs_wide_index({largest});
  return layout;
}

// Text that numbers of the parameters are written into while it is made.
class Writer {
 public:
  Writer(const ElementwiseSpec& spec, const Layout& layout) : spec_(spec), layout_(layout) {}

  std::string code() {
    const std::int64_t total = element_count(layout_.dims) / layout_.pack;
    out_ = str_cat("extern \"C\" __global__ void __launch_bounds__(256) KERNEL_NAME(const ",
                   "__grid_constant__ Params p) {\n  constexpr int V = ", layout_.pack,
                   ";\n  const index_t total = ", number(total), ";\n  FOR_EACH(i, total) {\n");
    write_coordinates();
    for (std::size_t i = 0; i < layout_.operands.size(); ++i) write_load(i);
    for (std::size_t j = 0; j < spec_.outputs.size(); ++j) {
      out_ += str_cat("    Pack<", type_name(spec_.outputs[j]), ", V> out", j, ";\n");
    }
    out_ += "#pragma unroll\n    for (int lane = 0; lane < V; ++lane) {\n";
    for (std::size_t i = 0; i < layout_.operands.size(); ++i) {
      const bool has_lanes = layout_.operands[i].access == Access::kDense ||
                             layout_.operands[i].access == Access::kPacked;
      out_ += str_cat("      const ", compute_name(spec_.inputs[i].dtype), " x", i, " = widen(in",
                      i, has_lanes ? ".v[lane]" : "", ");\n");
    }
    for (std::size_t j = 0; j < spec_.outputs.size(); ++j) {
      out_ += str_cat("      ", compute_name(spec_.outputs[j]), " y", j, ";\n");
    }
    out_ += spec_.body;
    for (std::size_t j = 0; j < spec_.outputs.size(); ++j) {
      out_ += str_cat("      out", j, ".v[lane] = narrow<", type_name(spec_.outputs[j]), ">(y", j,
                      ");\n");
    }
    out_ += "    }\n";
    for (std::size_t j = 0; j < spec_.outputs.size(); ++j) {
      out_ += str_cat("    ((Pack<", type_name(spec_.outputs[j]), ", V>*)p.p[",
                      spec_.inputs.size() + j, "])[i] = out", j, ";\n");
    }
    return out_ + "  }\n}\n";
  }

  std::vector<std::int64_t> take_numbers() { return std::move(numbers_); }

 private:
  std::string number(std::int64_t value) {
    numbers_.push_back(value);
    return str_cat("(index_t)p.n[", numbers_.size() - 1, "]");
  }
  std::string divisor(std::int64_t value) {
    numbers_.push_back(divisor_word(value, layout_.is_wide));
    return str_cat("p.n[", numbers_.size() - 1, "]");
  }

  // c<d>: coordinates; the last one counts packs.
  void write_coordinates() {
    const bool needs =
        std::any_of(layout_.operands.begin(), layout_.operands.end(), [](const Operand& operand) {
          return operand.access == Access::kPacked || operand.access == Access::kSame;
        });
    if (!needs) return;
    out_ += "    index_t rest = i;\n";
    for (std::size_t d = layout_.dims.size(); d-- > 0;) {
      if (d == 0) {
        out_ += "    const index_t c0 = rest;\n";
        break;
      }
      const std::int64_t size = layout_.dims[d] / (d + 1 == layout_.dims.size() ? layout_.pack : 1);
      out_ += str_cat("    const index_t q", d, " = divide(rest, ", divisor(size),
                      ");\n    const index_t c", d, " = rest - q", d, " * ", number(size),
                      ";\n    rest = q", d, ";\n");
    }
  }

  void write_load(std::size_t i) {
    const Operand& operand = layout_.operands[i];
    const std::string type = type_name(spec_.inputs[i].dtype);
    switch (operand.access) {
      case Access::kScalar:
        out_ += str_cat("    const ", type, " in", i, " = *(const ", type, "*)p.p[", i, "];\n");
        return;
      case Access::kDense:
        out_ += str_cat("    const Pack<", type, ", V> in", i, " = ((const Pack<", type,
                        ", V>*)p.p[", i, "])[i];\n");
        return;
      case Access::kSame:
      case Access::kPacked: break;
    }
    std::string offset;
    for (std::size_t d = 0; d < layout_.dims.size(); ++d) {
      if (operand.strides[d] == 0) continue;
      const bool is_last = d + 1 == layout_.dims.size();
      offset += offset.empty() ? "" : " + ";
      offset +=
          is_last ? str_cat("c", d, " * V") : str_cat("c", d, " * ", number(operand.strides[d]));
    }
    if (operand.access == Access::kSame) {
      out_ += str_cat("    const ", type, " in", i, " = ((const ", type, "*)p.p[", i, "])[", offset,
                      "];\n");
    } else if (operand.strides.back() == 1) {
      out_ += str_cat("    const Pack<", type, ", V> in", i, " = *(const Pack<", type,
                      ", V>*)((const ", type, "*)p.p[", i, "] + ", offset, ");\n");
    } else {
      // Not packed: V is 1.
      offset = "";
      for (std::size_t d = 0; d < layout_.dims.size(); ++d) {
        if (operand.strides[d] == 0) continue;
        offset += str_cat(offset.empty() ? "" : " + ", "c", d, " * ", number(operand.strides[d]));
      }
      out_ += str_cat("    Pack<", type, ", V> in", i, ";\n    in", i, ".v[0] = ((const ", type,
                      "*)p.p[", i, "])[", offset, "];\n");
    }
  }

  const ElementwiseSpec& spec_;
  const Layout& layout_;
  std::string out_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace

Result<GeneratedKernel> make_elementwise(RankContext& context, const ElementwiseSpec& spec) {
  TUTTI_ASSIGN_OR_RETURN(const Layout layout, lay_out(spec));
  Writer writer(spec, layout);
  KernelSource source;
  source.entry = spec.entry;
  source.files = {"pointwise.cuh"};
  source.code = writer.code();
  define_index(layout.is_wide, &source);
  define_math(spec.outputs, &source);
  const std::int64_t total = element_count(layout.dims) / layout.pack;
  return GeneratedKernel::create(context, std::move(source),
                                 spec.inputs.size() + spec.outputs.size(), writer.take_numbers(),
                                 grid_for(context, total));
}

}  // namespace tutti::cuda
