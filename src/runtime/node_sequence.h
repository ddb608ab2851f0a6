// A node whose body is a graph of ordinary nodes, as one kernel that runs them one after the other:
// what a backend does with a Fused node that it has no single kernel for.
#pragma once

#include <functional>

#include "runtime/backend.h"

namespace tutti {

using MakeKernel = std::function<Result<std::unique_ptr<Kernel>>(const KernelSpec& spec)>;

// Body inputs are the node's operands, body outputs its outputs. What lies between takes workspace.
// The node outlives the kernel. Errors: those of `make`, with the inner node in front.
Result<std::unique_ptr<Kernel>> make_node_sequence(const KernelSpec& spec, const Graph& body,
                                                   const MakeKernel& make);

}  // namespace tutti
