// What kernels that exchange share.
#pragma once

#include "backends/cpu/kernel_registry.h"

namespace tutti::cpu {

// The rank's communicator along the node's mesh axis, with as many ranks as the node says.
Result<std::shared_ptr<Communicator>> communicator_of(const Node& node, const CpuContext& context);

}  // namespace tutti::cpu
