// Pad: borders of one value around the copied box, or elements looked up through index tables.
#include <cstring>

#include "backends/cpu/movement_kernels.h"
#include "backends/cpu/strided.h"
#include "backends/cpu/strided_copy.h"
#include "graph/window_map.h"
#include "runtime/lambda_kernel.h"
#include "runtime/strided_box.h"

namespace tutti::cpu {
namespace {

// The border as boxes that do not overlap: along axis d, the box is whole in the axes after d and
// within the copied part in those before.
std::vector<StridedCopy> border_fills(const Dims& source, const Dims& target,
                                      const Borders& borders, std::size_t size) {
  const Dims strides = contiguous_strides(target);
  const Dims nowhere(target.size(), 0);
  std::vector<StridedCopy> fills;
  Dims box = target;
  std::int64_t corner = 0;
  for (std::size_t d = 0; d < target.size(); ++d) {
    box[d] = borders.before[d];
    fills.emplace_back(StridedBox{box, nowhere, strides, size, 0, corner});
    box[d] = borders.after[d];
    fills.emplace_back(StridedBox{box, nowhere, strides, size, 0,
                                  corner + (borders.before[d] + source[d]) * strides[d]});
    box[d] = source[d];
    corner += borders.before[d] * strides[d];
  }
  return fills;
}

KernelResult make_constant_pad(const KernelSpec& spec, const Borders& borders, ThreadPool* pool) {
  const Dims& source = spec.inputs[0].dims;
  const Dims& target = spec.outputs[0].dims;
  const std::size_t size = dtype_size(spec.inputs[0].dtype);
  const Dims strides = contiguous_strides(target);
  std::int64_t corner = 0;
  for (std::size_t d = 0; d < target.size(); ++d) corner += borders.before[d] * strides[d];
  const StridedCopy copy({source, contiguous_strides(source), strides, size, 0, corner});
  return make_lambda_kernel(
      [copy, fills = border_fills(source, target, borders, size), pool](const KernelArgs& args) {
        const std::uint64_t zero = 0;
        const bool has_value = args.inputs.size() > 1 && args.inputs[1] != nullptr;
        const void* value = has_value ? args.inputs[1] : &zero;
        for (const StridedCopy& fill : fills) fill.run(value, args.outputs[0], pool);
        copy.run(args.inputs[0], args.outputs[0], pool);
        return Status();
      });
}

KernelResult make_mirrored_pad(const KernelSpec& spec, const Borders& borders, WindowEdge edge,
                               ThreadPool* pool) {
  const Dims& source = spec.inputs[0].dims;
  Dims target = spec.outputs[0].dims;
  const Dims strides = contiguous_strides(source);
  const auto size = static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype));
  // Byte offsets in the source, by dimension and position in the target.
  std::vector<Dims> offsets(target.size());
  for (std::size_t d = 0; d < target.size(); ++d) {
    if (source[d] == 0 && target[d] > 0) {
      return invalid_argument("mode ", window_edge_name(edge), " pads axis ", d, " of size 0");
    }
    for (std::int64_t i = 0; i < target[d]; ++i) {
      offsets[d].push_back(row_at(edge, i - borders.before[d], source[d]) * strides[d] * size);
    }
  }
  if (target.empty()) {
    target.push_back(1);
    offsets.push_back({0});
  }
  const std::int64_t row = target.back();
  const std::int64_t rows = row == 0 ? 0 : tutti::element_count(target) / row;
  return make_lambda_kernel([target = std::move(target), offsets = std::move(offsets), row, rows,
                             size, pool](const KernelArgs& args) {
    const auto copy_rows = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t r = begin; r < end; ++r) {
        const auto* from = static_cast<const std::byte*>(args.inputs[0]);
        std::int64_t rest = r;
        for (std::size_t d = target.size() - 1; d-- > 0;) {
          from += offsets[d][static_cast<std::size_t>(rest % target[d])];
          rest /= target[d];
        }
        auto* to = static_cast<std::byte*>(args.outputs[0]) + r * row * size;
        for (const std::int64_t offset : offsets.back()) {
          std::memcpy(to, from + offset, static_cast<std::size_t>(size));
          to += size;
        }
      }
    };
    pool->parallel_for(rows, grain_for(row * size), std::cref(copy_rows));
    return Status();
  });
}

}  // namespace

KernelResult make_pad(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const Borders borders, bind_borders(spec));
  const std::string mode = spec.node.attr_string("mode", "constant");
  if (mode == "constant") return make_constant_pad(spec, borders, context.pool);
  const auto edge = parse_window_edge(mode);
  if (!edge) return invalid_argument("mode '", mode, "'; expected constant, reflect, edge or wrap");
  return make_mirrored_pad(spec, borders, *edge, context.pool);
}

}  // namespace tutti::cpu
