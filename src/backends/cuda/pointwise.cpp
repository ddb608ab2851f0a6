// Pointwise nodes and regions: one generated kernel each.
#include <algorithm>

#include "backends/cuda/elementwise.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/pointwise_code.h"

namespace tutti::cuda {
namespace {

// Operand i of the node is x<i>, output j is y<j>.
Result<std::string> node_body(const KernelSpec& spec) {
  BodyWriter writer;
  if (spec.node.type() != "Pointwise") {
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
      writer.bind(spec.node.input(i), str_cat("x", i), spec.constants[i]);
    }
    TUTTI_RETURN_IF_ERROR(writer.add(spec.node));
    const std::string& result = writer.name_of(spec.node.output());
    return str_cat(writer.take(), "      y0 = ", result, ";\n");
  }
  const std::shared_ptr<const Graph> body = spec.node.attr_graph("body");
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    writer.bind(body->inputs()[i], str_cat("x", i), spec.constants[i]);
  }
  TUTTI_RETURN_IF_ERROR(writer.add_body(*body));
  std::string results;
  for (std::size_t j = 0; j < body->outputs().size(); ++j) {
    results += str_cat("      y", j, " = ", writer.name_of(body->outputs()[j]), ";\n");
  }
  return writer.take() + results;
}

KernelResult make_pointwise(const KernelSpec& spec, RankContext& context) {
  ElementwiseSpec elementwise;
  elementwise.dims = spec.outputs[0].dims;
  for (const TensorDesc& output : spec.outputs) {
    if (output.dims != elementwise.dims) {
      return invalid_argument("outputs have shapes ", elementwise.dims, " and ", output.dims);
    }
    elementwise.outputs.push_back(output.dtype);
  }
  elementwise.inputs.assign(spec.inputs.begin(), spec.inputs.end());
  TUTTI_ASSIGN_OR_RETURN(elementwise.body, node_body(spec));
  if (spec.node.type() == "Pointwise") elementwise.entry = "pointwise_region";
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel, make_elementwise(context, elementwise));
  std::vector<const void*> addresses(spec.inputs.size() + spec.outputs.size());
  return make_lambda_kernel([kernel = std::move(kernel),
                             addresses = std::move(addresses)](const KernelArgs& args) mutable {
    std::copy(args.inputs.begin(), args.inputs.end(), addresses.begin());
    std::copy(args.outputs.begin(), args.outputs.end(),
              addresses.begin() + static_cast<std::ptrdiff_t>(args.inputs.size()));
    return kernel.run(addresses);
  });
}

}  // namespace

void register_pointwise_kernels(KernelTable* table) {
  for (const std::string& type : pointwise_types()) table->add(type, make_pointwise);
  table->add("Pointwise", make_pointwise);
}

}  // namespace tutti::cuda
