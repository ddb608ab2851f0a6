// Pool with a plain kernel.
#include <bit>

#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/spatial.h"

namespace tutti::cuda {
namespace {

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
  TUTTI_ASSIGN_OR_RETURN(const Spatial in,
                         spatial(Dims(x.dims.begin() + 2, x.dims.end()), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Spatial out,
                         spatial(Dims(y.dims.begin() + 2, y.dims.end()), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Spatial window,
                         spatial(spec.node.attr_ints("kernel_shape"), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Spatial strides, spatial(spec.node.attr_ints("strides"), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Spatial dilations,
                         spatial(spec.node.attr_ints("dilations"), rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Spatial before, spatial(Dims(pads.begin(), half), rank, 0));
  TUTTI_ASSIGN_OR_RETURN(const Spatial after, spatial(Dims(half, pads.end()), rank, 0));
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

void register_pool_kernels(KernelTable* table) { table->add("Pool", make_pool); }

}  // namespace tutti::cuda
