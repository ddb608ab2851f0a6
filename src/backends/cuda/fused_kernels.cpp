// Fused: one row kernel where the body consists of rows, else the body's nodes one by one.
#include <algorithm>

#include "backends/cuda/kernels.h"
#include "backends/cuda/row_kernel.h"
#include "runtime/node_sequence.h"

namespace tutti::cuda {
namespace {

KernelResult make_nodes(const KernelSpec& spec, const Graph& body, RankContext& context) {
  return make_node_sequence(spec, body, [&context](const KernelSpec& inner) -> KernelResult {
    const KernelFactory factory = kernel_table().find(inner.node.type());
    if (factory == nullptr) return unimplemented("there is no kernel for ", inner.node.type());
    return factory(inner, context);
  });
}

KernelResult make_rows(const KernelSpec& spec, const Graph& body, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel rows,
      make_row_kernel(context, {body, spec.inputs, spec.constants, spec.symbols}));
  std::vector<const void*> addresses(spec.inputs.size() + spec.outputs.size());
  return make_lambda_kernel(
      [kernel = std::move(rows), addresses = std::move(addresses)](const KernelArgs& args) mutable {
        std::copy(args.inputs.begin(), args.inputs.end(), addresses.begin());
        std::copy(args.outputs.begin(), args.outputs.end(),
                  addresses.begin() + static_cast<std::ptrdiff_t>(args.inputs.size()));
        return kernel.run(addresses);
      });
}

KernelResult make_fused(const KernelSpec& spec, RankContext& context) {
  const std::shared_ptr<const Graph> body = spec.node.attr_graph("body");
  KernelResult rows = make_rows(spec, *body, context);
  if (rows.ok() || rows.status().code() != StatusCode::kUnimplemented) return rows;
  return make_nodes(spec, *body, context);
}

}  // namespace

void register_fused_kernels(KernelTable* table) { table->add("Fused", make_fused); }

}  // namespace tutti::cuda
