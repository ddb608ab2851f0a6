// Sizes, Fill, Iota: tensors made from bound sizes and scalars.
#include "backends/cuda/kernels.h"
#include "backends/cuda/strided_copy.h"

namespace tutti::cuda {
namespace {

KernelResult make_sizes(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const Dims values, evaluate(spec.node.attr_dims("values"), spec.symbols));
  const std::size_t bytes = values.size() * sizeof(std::int64_t);
  TUTTI_ASSIGN_OR_RETURN(const auto placed, context.place(values.data(), bytes));
  return make_lambda_kernel([placed, bytes, stream = context.stream](const KernelArgs& args) {
    return to_status(
        cudaMemcpyAsync(args.outputs[0], placed->data(), bytes, cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
  });
}

KernelResult make_fill(const KernelSpec& spec, RankContext& context) {
  const TensorDesc& out = spec.outputs[0];
  const StridedBox box{{out.element_count()}, {0}, {1}, dtype_size(out.dtype)};
  TUTTI_ASSIGN_OR_RETURN(StridedCopy fill, StridedCopy::create(context, box));
  return make_lambda_kernel([fill = std::move(fill)](const KernelArgs& args) mutable {
    return fill.run(args.inputs[0], args.outputs[0]);
  });
}

KernelResult make_iota(const KernelSpec& spec, RankContext& context) {
  const std::int64_t count = spec.outputs[0].element_count();
  KernelSource source;
  source.entry = "iota";
  source.files = {"iota.cuh"};
  define_index(needs_wide_index({count}), &source);
  source.defines.emplace_back("T", type_name(spec.outputs[0].dtype));
  source.defines.emplace_back("WIDE", is_floating(spec.outputs[0].dtype) ? "f64" : "i64");
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(context, std::move(source), 3, {count}, grid_for(context, count)));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.inputs[1], args.outputs[0]});
  });
}

}  // namespace

void register_generate_kernels(KernelTable* table) {
  table->add("Sizes", make_sizes);
  table->add("Fill", make_fill);
  table->add("Iota", make_iota);
}

}  // namespace tutti::cuda
