// Places in a kernel's workspace, which starts at such a multiple itself (plan/memory_plan.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::cuda {

constexpr std::size_t kWorkspaceAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

}  // namespace tutti::cuda
