#include "backends/cuda/row_operands.h"

#include <algorithm>

namespace tutti::cuda {
namespace {

constexpr std::int64_t kMaxHeldBytes = 128;  // a thread, of operands that all rows share

}  // namespace

// Where lane l of pack k reads: outer * (k / period) + inner * (k % period) + lanes[l].
struct RowOperands::Access {
  std::int64_t outer = 0;
  std::int64_t inner = 0;
  Positions lanes;  // -1: not needed
};

std::string RowOperands::coordinates() {
  if (!needs_coordinates_) return "";
  std::string out = "    u32 rest = row;\n";
  for (std::size_t d = layout_.lead.size(); d-- > 0;) {
    if (layout_.lead[d] == 1) continue;
    const std::int64_t count = layout_.count(d);
    const std::string divisor = code_->number(divisor_word(count, false));
    const std::string at = str_cat("rest - q", d, " * (u32)", code_->number(count));
    const bool is_chosen = static_cast<int>(d) == layout_.chosen_dim;
    out += str_cat(
        "    const u32 q", d, " = divide(rest, ", divisor, ");\n    const i64 c", d, " = ",
        is_chosen ? str_cat("((const i64*)p.p[", layout_.chosen_address, "])[", at, "]") : at,
        ";\n    rest = q", d, ";\n");
  }
  return out;
}

Result<RowOperand> RowOperands::operand_of(std::size_t input, std::size_t rank) const {
  const Dims& dims = spec_.inputs[input].dims;
  const Dims own = contiguous_strides(dims);
  RowOperand operand{input, Dims(layout_.lead.size(), 0)};
  const std::size_t shift = rank - dims.size();
  for (std::size_t d = shift; d < layout_.lead.size(); ++d) {
    const std::int64_t size = dims[d - shift];
    if (size != layout_.lead[d] && size != 1) return unimplemented("an operand has other rows");
    if (size != 1) operand.strides[d] = own[d - shift];
  }
  return operand;
}

// Elements of the operand that belong to one row.
std::int64_t RowOperands::row_length(const RowOperand& operand) const {
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < layout_.lead.size(); ++d) {
    if (operand.strides[d] != 0) rows *= layout_.lead[d];
  }
  return spec_.inputs[operand.input].element_count() / rows;
}

// A pointer to the operand's row, declared once a row (or once, where all rows share it).
std::string RowOperands::pointer_to(const RowOperand& operand) {
  const auto [found, is_new] = pointer_of_.try_emplace(operand, "");
  if (!is_new) return found->second;
  found->second = str_cat("r", pointer_of_.size());
  const std::string type = type_name(spec_.inputs[operand.input].dtype);
  std::string offset;
  Dims dense = contiguous_strides(layout_.lead);
  const std::int64_t row = operand.strides.empty() ? 0 : operand.strides.back();
  for (std::size_t d = 0; d < dense.size(); ++d) {
    dense[d] = layout_.lead[d] == 1 ? 0 : dense[d] * row;
  }
  if (operand.is_shared()) {
    offset = "";
  } else if (layout_.chosen_dim < 0 && dense == operand.strides && row != 0) {
    offset = str_cat(" + (i64)row * ", row);
  } else {
    needs_coordinates_ = true;
    for (std::size_t d = 0; d < dense.size(); ++d) {
      if (operand.strides[d] != 0) {
        offset += str_cat(" + c", d, " * ", code_->number(operand.strides[d]));
      }
    }
  }
  std::string& place = operand.is_shared() ? code_->before_rows : code_->pointers;
  place += str_cat("    const ", type, "* ", found->second, " = (const ", type, "*)p.p[",
                   operand.input, "]", offset, ";\n");
  return found->second;
}

// The positions that the packs of a scope read, as a rule for a pack.
Result<RowOperands::Access> RowOperands::access_of(const RowScope& scope,
                                                   const Positions& positions) const {
  const auto v = static_cast<std::size_t>(layout_.pack);
  Access access;
  access.lanes.assign(v, -1);
  const auto outer = [&](std::size_t j) { return scope.packs[j] / layout_.period; };
  const auto inner = [&](std::size_t j) { return scope.packs[j] % layout_.period; };
  const auto used =
      static_cast<std::size_t>(std::find_if(positions.begin(), positions.begin() + layout_.pack,
                                            [](std::int64_t at) { return at >= 0; }) -
                               positions.begin());
  if (used == v) return access;
  for (std::size_t j = 1; j < scope.packs.size(); ++j) {
    const std::int64_t moved = positions[j * v + used] - positions[used];
    const int across = inner(j) - inner(0);
    const int along = outer(j) - outer(0);
    if (along == 0) access.inner = moved / across;
    if (across == 0) access.outer = moved / along;
  }
  for (std::size_t l = 0; l < v; ++l) {
    if (positions[l] < 0) continue;
    const auto start = [&](std::size_t j) {
      return positions[j * v + l] - access.outer * outer(j) - access.inner * inner(j);
    };
    access.lanes[l] = start(0);
    for (std::size_t j = 1; j < scope.packs.size(); ++j) {
      if (start(j) != start(0)) return unimplemented("rows are read without a rule");
    }
  }
  return access;
}

// Elements that are loaded at once: no row and no pack begins inside of them.
std::int64_t RowOperands::word_length(const RowOperand& operand, const Access& access) const {
  std::int64_t word = layout_.pack;
  const auto fits = [&](std::int64_t stride) { return stride % word == 0; };
  while (!fits(access.outer) || !fits(access.inner) ||
         !std::all_of(operand.strides.begin(), operand.strides.end(), fits)) {
    word /= 2;
  }
  while (row_length(operand) % word != 0) word /= 2;
  return word;
}

Result<LaneNames> RowOperands::load(RowScope* scope, const RowOperand& operand,
                                    const Positions& positions) {
  TUTTI_ASSIGN_OR_RETURN(const Access access, access_of(*scope, positions));
  const std::int64_t word = word_length(operand, access);
  const std::string type = compute_name(spec_.inputs[operand.input].dtype);
  LaneNames lanes(access.lanes.size());
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const std::int64_t at = access.lanes[l];
    if (positions[l] < 0) continue;
    // Rules may start before the row; words stay aligned.
    const std::int64_t first = at >= 0 ? at / word * word : -((-at + word - 1) / word * word);
    const std::string pack = word_at(scope, operand, access, first, word);
    lanes[l] = code_->name("x");
    scope->code +=
        str_cat("      const ", type, " ", lanes[l], " = widen(", pack, ".v[", at - first, "]);\n");
  }
  return lanes;
}

std::string RowOperands::index_text(const Access& access, std::int64_t first) const {
  std::string index = std::to_string(first);
  if (access.outer == access.inner * layout_.period) {
    if (access.inner != 0) index += str_cat(" + k * ", access.inner);
    return index;
  }
  if (access.outer != 0) index += str_cat(" + k / ", layout_.period, " * ", access.outer);
  if (access.inner != 0) index += str_cat(" + k % ", layout_.period, " * ", access.inner);
  return index;
}

// The word of `word` elements whose first one stands at `first` for pack 0.
std::string RowOperands::word_at(RowScope* scope, const RowOperand& operand, const Access& access,
                                 std::int64_t first, std::int64_t word) {
  const std::string pointer = pointer_to(operand);
  const std::string index = index_text(access, first);
  const std::string key = str_cat(pointer, "[", index, "]", word);
  const auto [found, is_new] = scope->loads.try_emplace(key, "");
  if (!is_new) return found->second;
  const DType dtype = spec_.inputs[operand.input].dtype;
  const std::string parameters = str_cat("<", type_name(dtype), ", ", word, ">");
  const std::string pack = "Pack" + parameters;
  const std::string call = str_cat("load_pack", parameters, "(", pointer, " + (", index, "))");
  const bool varies = access.outer != 0 || access.inner != 0;
  const auto held =
      word * static_cast<std::int64_t>(dtype_size(dtype)) * (varies ? layout_.rounds : 1);
  if (operand.is_shared() && held_bytes_ + held <= kMaxHeldBytes) {
    const auto [kept, is_first] = held_.try_emplace(key + scope->condition, "");
    if (is_first) {
      held_bytes_ += held;
      kept->second = hold(*scope, pack, call, varies);
    }
    found->second = varies ? kept->second + "[u]" : kept->second;
    return found->second;
  }
  found->second = code_->name("w");
  scope->code += str_cat("      const ", pack, " ", found->second, " = ", call, ";\n");
  return found->second;
}

// A word that is the same for all rows is read once and kept, under the name that is returned.
std::string RowOperands::hold(const RowScope& scope, const std::string& pack,
                              const std::string& call, bool varies) {
  std::string name = code_->name("h");
  if (!varies) {
    code_->before_rows += str_cat("  const ", pack, " ", name, " = ", call, ";\n");
    return name;
  }
  const std::string condition = scope.condition.empty() ? "true" : scope.condition;
  code_->before_rows +=
      str_cat("  ", pack, " ", name, "[", layout_.rounds,
              "];\n#pragma unroll\n  for (int u = 0; u < ", layout_.rounds, "; ++u) {\n",
              pack_index(layout_), "    if (", condition, ") ", name, "[u] = ", call, ";\n  }\n");
  return name;
}

}  // namespace tutti::cuda
