// Places in a kernel's workspace: arenas only promise a cache line, libraries want more.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::cuda {

constexpr std::size_t kWorkspaceAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// The first place in `workspace`; ask for with_room() bytes.
inline std::byte* aligned(void* workspace) {
  const auto at = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(workspace));
  return reinterpret_cast<std::byte*>(aligned(at));
}
constexpr std::size_t with_room(std::size_t bytes) {
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}

}  // namespace tutti::cuda
