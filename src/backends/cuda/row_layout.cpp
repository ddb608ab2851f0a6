#include "backends/cuda/row_layout.h"

#include <algorithm>

namespace tutti::cuda {
namespace {

constexpr std::int64_t kMaxRow = 1 << 16;

bool is_norm(const Node& node) {
  return node.type() == "LayerNormalization" || node.type() == "RMSNormalization";
}

Status find_norm(const Graph& body, RowLayout* layout) {
  for (const auto& node : body.nodes()) {
    const bool depends = std::any_of(node->inputs().begin(), node->inputs().end(),
                                     [&](const Value* input) { return layout->is_late(input); });
    if (is_norm(*node)) {
      if (layout->norm != nullptr) return unimplemented("there are two norms");
      layout->norm = node.get();
    } else if (!depends) {
      continue;
    }
    layout->late.insert(node->outputs().begin(), node->outputs().end());
  }
  return {};
}

Status find_rows(const RowSpec& spec, RowLayout* layout) {
  const Value* first = spec.body.outputs()[0];
  const Value* value = layout->norm != nullptr ? layout->norm->input(0) : first;
  const Dims& dims = layout->dims.at(value);
  if (dims.empty()) return unimplemented("scalars have no rows");
  const auto axis = layout->norm != nullptr ? layout->norm->attr_int("axis")
                                            : static_cast<std::int64_t>(dims.size()) - 1;
  layout->lead.assign(dims.begin(), dims.begin() + axis);
  layout->rows = element_count(layout->lead);
  layout->in = element_count(layout->row_of(dims));
  for (const auto& node : spec.body.nodes()) {
    for (const Value* output : node->outputs()) {
      const Dims& own = layout->dims.at(output);
      if (own.size() < layout->lead.size() ||
          !std::equal(layout->lead.begin(), layout->lead.end(), own.begin())) {
        return unimplemented("'", output->name(), "' has other rows");
      }
    }
  }
  layout->out = element_count(layout->row_of(layout->dims.at(first)));
  for (const Value* output : spec.body.outputs()) {
    if (element_count(layout->row_of(layout->dims.at(output))) != layout->out) {
      return unimplemented("outputs have rows of different lengths");
    }
  }
  if (layout->rows * layout->in * layout->out == 0) return unimplemented("rows are empty");
  if (layout->rows >= std::int64_t{1} << 31 || std::max(layout->in, layout->out) > kMaxRow) {
    return unimplemented(layout->rows, " rows of ", layout->in);
  }
  return {};
}

// Words of 16 bytes for the smallest type that fills rows.
void choose_pack(const RowSpec& spec, RowLayout* layout) {
  std::size_t smallest = 8;
  const auto count = [&](DType dtype) { smallest = std::min(smallest, dtype_size(dtype)); };
  for (const Value* output : spec.body.outputs()) count(output->dtype());
  for (const TensorDesc& input : spec.inputs) {
    if (input.element_count() >= layout->rows * layout->out) count(input.dtype);
  }
  layout->pack = static_cast<int>(16 / std::max<std::size_t>(smallest, 2));
  while (layout->in % layout->pack != 0 || layout->out % layout->pack != 0) layout->pack /= 2;
  const std::int64_t last = layout->dims.at(spec.body.outputs()[0]).back();
  layout->period =
      static_cast<int>(last % layout->pack == 0 ? last / layout->pack : layout->packs());
}

// The fewest idle lanes; among those, as many packs a thread as hide the memory's latency.
Status choose_team(RowLayout* layout) {
  const std::int64_t packs = std::max(layout->in, layout->out) / layout->pack;
  const std::int64_t wanted = packs >= 256 ? 4 : packs >= 16 ? 2 : 1;
  std::int64_t best = -1;
  for (std::int64_t team = 1; team <= 1024; team *= 2) {
    const std::int64_t rounds = (packs + team - 1) / team;
    const bool is_held = layout->norm != nullptr;
    if (rounds > (is_held ? 8 : 16) && team < 1024) continue;
    if (is_held && rounds > 8) return unimplemented("rows of ", layout->in, " fill no registers");
    const std::int64_t idle = (rounds * team - packs) * 16 / packs;
    const std::int64_t cost = idle * 16 + std::abs(rounds - wanted);
    if (best >= 0 && cost >= best) continue;
    best = cost;
    layout->team = static_cast<int>(team);
    layout->rounds = static_cast<int>(rounds);
  }
  layout->threads = std::max(256, layout->team);
  return {};
}

}  // namespace

Result<RowLayout> lay_out_rows(const RowSpec& spec) {
  RowLayout layout;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    layout.dims[spec.body.inputs()[i]] = spec.inputs[i].dims;
  }
  for (const auto& node : spec.body.nodes()) {
    for (const Value* output : node->outputs()) {
      TUTTI_ASSIGN_OR_RETURN(layout.dims[output], evaluate(output->shape(), spec.symbols));
    }
  }
  TUTTI_RETURN_IF_ERROR(find_norm(spec.body, &layout));
  TUTTI_RETURN_IF_ERROR(find_rows(spec, &layout));
  choose_pack(spec, &layout);
  TUTTI_RETURN_IF_ERROR(choose_team(&layout));
  return layout;
}

}  // namespace tutti::cuda
