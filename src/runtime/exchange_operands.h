// What an exchange node says of its operands, in numbers: the same for every backend.
// Errors name the attribute, operand or size that is wrong.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "comm/transfer_plan.h"
#include "runtime/backend.h"

namespace tutti {

// An attribute that is one size.
Result<std::int64_t> single_size(const KernelSpec& spec, std::string_view attribute);

// `dim` is a dimension of `desc`.
Status check_dim(std::int64_t dim, const TensorDesc& desc);

// Attributes dim, units and replicas.
Result<PieceSplit> split_of(const KernelSpec& spec);

// Halo (from pieces) and WindowSlice (from the whole): to windows.
Result<TransferOperand> window_operand(const KernelSpec& spec);
// AllGather: from pieces to the whole. Units and sizes of each operand, or of all.
Result<std::vector<TransferOperand>> gather_operands(const KernelSpec& spec);
// AllToAll: from pieces to pieces.
Result<std::vector<TransferOperand>> all_to_all_operands(const KernelSpec& spec);

// Both ends of every operand have the sizes that its splits say for `rank` of `ranks`.
Status check_sizes(const KernelSpec& spec, std::span<const TransferOperand> operands, int ranks,
                   int rank);

}  // namespace tutti
