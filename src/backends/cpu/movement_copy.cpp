// Transpose, Expand, Slice, Tile, Concat, Split: one strided copy each, or one an operand.
#include "backends/cpu/movement_kernels.h"
#include "backends/cpu/strided_copy.h"
#include "runtime/lambda_kernel.h"
#include "runtime/strided_box.h"

namespace tutti::cpu {
namespace {

KernelResult make_copy(const Result<StridedBox>& box, ThreadPool* pool) {
  if (!box.ok()) return box.status();
  return make_lambda_kernel([copy = StridedCopy(*box), pool](const KernelArgs& args) {
    copy.run(args.inputs[0], args.outputs[0], pool);
    return Status();
  });
}

}  // namespace

KernelResult make_transpose(const KernelSpec& spec, CpuContext& context) {
  return make_copy(transpose_box(spec), context.pool);
}

KernelResult make_expand(const KernelSpec& spec, CpuContext& context) {
  return make_copy(expand_box(spec), context.pool);
}

KernelResult make_slice(const KernelSpec& spec, CpuContext& context) {
  return make_copy(slice_box(spec), context.pool);
}

KernelResult make_tile(const KernelSpec& spec, CpuContext& context) {
  return make_copy(tile_box(spec), context.pool);
}

KernelResult make_concat(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<StridedBox> boxes, concat_boxes(spec));
  return make_lambda_kernel([copies = std::vector<StridedCopy>(boxes.begin(), boxes.end()),
                             pool = context.pool](const KernelArgs& args) {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      copies[i].run(args.inputs[i], args.outputs[0], pool);
    }
    return Status();
  });
}

KernelResult make_split(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<StridedBox> boxes, split_boxes(spec));
  return make_lambda_kernel([copies = std::vector<StridedCopy>(boxes.begin(), boxes.end()),
                             pool = context.pool](const KernelArgs& args) {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      copies[i].run(args.inputs[0], args.outputs[i], pool);
    }
    return Status();
  });
}

}  // namespace tutti::cpu
