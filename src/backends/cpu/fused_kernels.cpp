// Fused: the nodes of the body one after the other; pointwise regions among them are one pass each.
#include "backends/cpu/kernels.h"
#include "runtime/node_sequence.h"

namespace tutti::cpu {
namespace {

Result<std::unique_ptr<Kernel>> make_fused(const KernelSpec& spec, CpuContext& context) {
  const std::shared_ptr<const Graph> body = spec.node.attr_graph("body");
  return make_node_sequence(
      spec, *body, [&context](const KernelSpec& inner) -> Result<std::unique_ptr<Kernel>> {
        const KernelFactory factory = kernel_registry().find(inner.node.type());
        if (factory == nullptr) {
          return unimplemented("the cpu backend has no kernel for ", inner.node.type());
        }
        return factory(inner, context);
      });
}

}  // namespace

void register_fused_kernels(KernelRegistry* registry) { registry->add("Fused", make_fused); }

}  // namespace tutti::cpu
