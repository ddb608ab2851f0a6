// What the kernels of Attention and RingAttention share: sizes from the node, and one pass of
// queries over keys.
#pragma once

#include <optional>

#include "backends/cpu/attention_levels.h"
#include "backends/cpu/kernel_registry.h"

namespace tutti::cpu {

// From a node with operands q, k, v, mask?, key_lengths?. `all_keys`: what the mask counts, where k
// and v are a piece of it. Errors: operands that do not fit each other.
Result<AttentionShape> read_attention_shape(const KernelSpec& spec,
                                            std::optional<std::int64_t> all_keys = std::nullopt);

AttentionData attention_data(const KernelArgs& args);

// Packs keys and values into the workspace, then runs over all query tiles.
void attend(const AttentionShape& s, const AttentionData& data, const attention::Functions& f,
            ThreadPool* pool, std::byte* workspace);
std::size_t attend_workspace_bytes(const AttentionShape& s, const attention::Functions& f,
                                   const ThreadPool& pool);

// attention_ring.cpp
Result<std::unique_ptr<Kernel>> make_ring_attention(const KernelSpec& spec, CpuContext& context);

}  // namespace tutti::cpu
