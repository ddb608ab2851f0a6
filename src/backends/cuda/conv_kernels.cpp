// Conv, ConvTranspose and Pool with plain kernels.
#include <array>
#include <bit>

#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/kernels.h"

namespace tutti::cuda {
namespace {

// By spatial dimension, three of them always.
using Triple = std::array<std::int64_t, 3>;

Result<Triple> triple(const Dims& values, std::size_t rank, std::int64_t fallback) {
  Triple out = {fallback, fallback, fallback};
  if (rank > 3) return unimplemented(rank, " spatial dimensions; expected 1 to 3");
  for (std::size_t i = 0; i < rank && i < values.size(); ++i) out[3 - rank + i] = values[i];
  return out;
}

KernelResult make_conv(const KernelSpec& spec, RankContext& context) {
  const TensorDesc& x = spec.inputs[0];
  const TensorDesc& w = spec.inputs[1];
  const TensorDesc& y = spec.outputs[0];
  if (!is_floating(x.dtype) && x.dtype != DType::kInt32) {
    return invalid_argument("no convolution of ", dtype_name(x.dtype));
  }
  const std::size_t rank = x.dims.size() - 2;
  const auto space = [&](const Dims& dims) {
    return triple(Dims(dims.begin() + 2, dims.end()), rank, 1);
  };
  TUTTI_ASSIGN_OR_RETURN(const Triple in, space(x.dims));
  TUTTI_ASSIGN_OR_RETURN(const Triple out, space(y.dims));
  TUTTI_ASSIGN_OR_RETURN(const Triple kernel_size, space(w.dims));
  TUTTI_ASSIGN_OR_RETURN(const Triple strides, triple(spec.node.attr_ints("strides"), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Triple dilations, triple(spec.node.attr_ints("dilations"), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Triple pads, triple(spec.node.attr_ints("pads"), rank, 0));
  const std::int64_t total = y.element_count();
  std::vector<std::int64_t> numbers = {total, y.dims[1], x.dims[1], spec.node.attr_int("group", 1)};
  for (std::size_t d = 0; d < 3; ++d) {
    numbers.insert(numbers.end(),
                   {in[d], out[d], kernel_size[d], strides[d], dilations[d], pads[d]});
  }
  const bool is_transposed = spec.node.type() == "ConvTranspose";
  KernelSource source;
  source.entry = is_transposed ? "conv_transpose" : "conv";
  source.files = {"conv.cuh"};
  define_index(needs_wide_index({total}), &source);
  source.defines.emplace_back("T", type_name(x.dtype));
  source.defines.emplace_back("IS_TRANSPOSED", is_transposed ? "1" : "0");
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(source), 4, std::move(numbers),
                                                 grid_for(context, total)));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.inputs[1], optional_input(args, 2), args.outputs[0]});
  });
}

std::string least_value(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return "-__longlong_as_double(0x7ff0000000000000ll)";
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16: return "-__int_as_float(0x7f800000)";
    case DType::kInt8: return "-128";
    case DType::kInt16: return "-32768";
    case DType::kInt32: return "0x80000000u";
    case DType::kInt64: return "0x8000000000000000ull";
    default: return "0";
  }
}

KernelResult make_pool(const KernelSpec& spec, RankContext& context) {
  const TensorDesc& x = spec.inputs[0];
  const TensorDesc& y = spec.outputs[0];
  const std::size_t rank = x.dims.size() - 2;
  const Dims pads = spec.node.attr_ints("pads");
  const auto half = pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2);
  TUTTI_ASSIGN_OR_RETURN(const Triple in, triple(Dims(x.dims.begin() + 2, x.dims.end()), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Triple out, triple(Dims(y.dims.begin() + 2, y.dims.end()), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Triple window, triple(spec.node.attr_ints("kernel_shape"), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Triple strides, triple(spec.node.attr_ints("strides"), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Triple dilations, triple(spec.node.attr_ints("dilations"), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Triple before, triple(Dims(pads.begin(), half), rank, 0));
  TUTTI_ASSIGN_OR_RETURN(const Triple after, triple(Dims(half, pads.end()), rank, 0));
  const std::int64_t total = y.element_count();
  const auto power = static_cast<double>(spec.node.attr_int("p", 2));
  std::vector<std::int64_t> numbers = {total, spec.node.attr_int("count_include_pad") != 0 ? 1 : 0,
                                       std::bit_cast<std::int64_t>(power)};
  for (std::size_t d = 0; d < 3; ++d) {
    numbers.insert(numbers.end(),
                   {in[d], out[d], window[d], strides[d], dilations[d], before[d], after[d]});
  }
  const std::string kind = spec.node.attr_string("kind");
  KernelSource source;
  source.entry = "pool_" + kind;
  source.files = {"pool.cuh"};
  define_index(needs_wide_index({total}), &source);
  source.defines.emplace_back("T", type_name(x.dtype));
  source.defines.emplace_back("KIND", kind == "max" ? "0" : kind == "average" ? "1" : "2");
  source.defines.emplace_back("LEAST", "(" + least_value(x.dtype) + ")");
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(source), 2, std::move(numbers),
                                                 grid_for(context, total)));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.outputs[0]});
  });
}

}  // namespace

void register_conv_kernels(KernelTable* table) {
  table->add("Conv", make_conv);
  table->add("ConvTranspose", make_conv);
  table->add("Pool", make_pool);
}

}  // namespace tutti::cuda
