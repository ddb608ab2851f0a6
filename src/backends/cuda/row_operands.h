// How a kernel over rows reads its operands: which words a thread loads for its packs, and where
// they begin.
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "backends/cuda/row_code.h"

namespace tutti::cuda {

// An operand as the nodes of one rank see it: 0 along lead dimensions that it lacks.
struct RowOperand {
  std::size_t input = 0;
  Dims strides;
  bool is_shared() const {
    return std::all_of(strides.begin(), strides.end(), [](std::int64_t s) { return s == 0; });
  }
  auto operator<=>(const RowOperand&) const = default;
};

// Writes into the kernel's code; spec, layout and code outlive it.
class RowOperands {
 public:
  RowOperands(const RowSpec& spec, const RowLayout& layout, RowCode* code)
      : spec_(spec), layout_(layout), code_(code) {}

  // The operand seen from a node whose result has `rank` dimensions. UNIMPLEMENTED for other rows.
  Result<RowOperand> operand_of(std::size_t input, std::size_t rank) const;

  // The operand at `positions` of its rows (by pack of the scope, then lane). UNIMPLEMENTED where
  // the scope's packs read without a rule.
  Result<LaneNames> load(RowScope* scope, const RowOperand& operand, const Positions& positions);

  // c<d>: where the row stands in the lead dimensions, if an operand so far asks for it.
  std::string coordinates();

 private:
  struct Access;

  Result<Access> access_of(const RowScope& scope, const Positions& positions) const;
  std::int64_t row_length(const RowOperand& operand) const;
  std::int64_t word_length(const RowOperand& operand, const Access& access) const;
  std::string pointer_to(const RowOperand& operand);
  std::string index_text(const Access& access, std::int64_t first) const;
  std::string word_at(RowScope* scope, const RowOperand& operand, const Access& access,
                      std::int64_t first, std::int64_t word);
  std::string hold(const RowScope& scope, const std::string& pack, const std::string& call,
                   bool varies);

  const RowSpec& spec_;
  const RowLayout& layout_;
  RowCode* const code_;
  std::map<RowOperand, std::string> pointer_of_;
  bool needs_coordinates_ = false;
  std::map<std::string, std::string> held_;
  std::int64_t held_bytes_ = 0;
};

}  // namespace tutti::cuda
