// Transpose, Expand, Slice, Tile, Concat, Split, Pad: one strided copy each, or one an operand.
#include "backends/cuda/kernels.h"
#include "backends/cuda/strided_copy.h"
#include "runtime/strided_box.h"

namespace tutti::cuda {
namespace {

template <auto kBox>
KernelResult make_copy(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const StridedBox box, kBox(spec));
  TUTTI_ASSIGN_OR_RETURN(StridedCopy copy, StridedCopy::create(context, box));
  return make_lambda_kernel([copy = std::move(copy)](const KernelArgs& args) mutable {
    return copy.run(args.inputs[0], args.outputs[0]);
  });
}

Result<std::vector<StridedCopy>> make_copies(RankContext& context,
                                             const std::vector<StridedBox>& boxes) {
  std::vector<StridedCopy> copies;
  for (const StridedBox& box : boxes) {
    TUTTI_ASSIGN_OR_RETURN(StridedCopy copy, StridedCopy::create(context, box));
    copies.push_back(std::move(copy));
  }
  return copies;
}

KernelResult make_concat(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<StridedBox> boxes, concat_boxes(spec));
  TUTTI_ASSIGN_OR_RETURN(std::vector<StridedCopy> copies, make_copies(context, boxes));
  return make_lambda_kernel([copies = std::move(copies)](const KernelArgs& args) mutable {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(copies[i].run(args.inputs[i], args.outputs[0]));
    }
    return Status();
  });
}

KernelResult make_split(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<StridedBox> boxes, split_boxes(spec));
  TUTTI_ASSIGN_OR_RETURN(std::vector<StridedCopy> copies, make_copies(context, boxes));
  return make_lambda_kernel([copies = std::move(copies)](const KernelArgs& args) mutable {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(copies[i].run(args.inputs[0], args.outputs[i]));
    }
    return Status();
  });
}

// The value everywhere first, then the source over it.
KernelResult make_constant_pad(const KernelSpec& spec, const Borders& borders,
                               RankContext& context) {
  const TensorDesc& target = spec.outputs[0];
  const Dims strides = contiguous_strides(target.dims);
  StridedBox inner{spec.inputs[0].dims, contiguous_strides(spec.inputs[0].dims), strides,
                   dtype_size(target.dtype)};
  for (std::size_t d = 0; d < target.dims.size(); ++d) {
    inner.target_offset += borders.before[d] * strides[d];
  }
  StridedBox all{{target.element_count()}, {0}, {1}, dtype_size(target.dtype)};
  TUTTI_ASSIGN_OR_RETURN(StridedCopy copy, StridedCopy::create(context, inner));
  TUTTI_ASSIGN_OR_RETURN(StridedCopy fill, StridedCopy::create(context, all));
  return make_lambda_kernel([copy = std::move(copy), fill = std::move(fill),
                             bytes = target.byte_size(),
                             stream = context.stream](const KernelArgs& args) mutable {
    if (const void* value = optional_input(args, 1); value != nullptr) {
      TUTTI_RETURN_IF_ERROR(fill.run(value, args.outputs[0]));
    } else {
      TUTTI_CUDA(cudaMemsetAsync(args.outputs[0], 0, bytes, stream));
    }
    return copy.run(args.inputs[0], args.outputs[0]);
  });
}

KernelResult make_mirrored_pad(const KernelSpec& spec, const Borders& borders,
                               const std::string& mode, RankContext& context) {
  Dims source = spec.inputs[0].dims;
  Dims target = spec.outputs[0].dims;
  Dims before = borders.before;
  if (target.empty()) {
    source = target = {1};
    before = {0};
  }
  const Dims strides = contiguous_strides(source);
  const std::int64_t total = element_count(target);
  const bool is_wide = needs_wide_index({total});
  std::vector<std::int64_t> numbers = {total};
  for (std::size_t d = 0; d < target.size(); ++d) {
    if (source[d] == 0 && target[d] > 0) {
      return invalid_argument("mode ", mode, " pads axis ", d, " of size 0");
    }
    numbers.insert(numbers.end(),
                   {target[d], divisor_word(target[d], is_wide), source[d], before[d], strides[d]});
  }
  KernelSource code;
  code.entry = "pad";
  code.files = {"pad.cuh"};
  define_index(is_wide, &code);
  code.defines.emplace_back("RANK", std::to_string(target.size()));
  code.defines.emplace_back("WORD", std::to_string(dtype_size(spec.inputs[0].dtype)));
  code.defines.emplace_back("MODE", mode == "reflect" ? "0" : mode == "edge" ? "1" : "2");
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(code), 2, std::move(numbers),
                                                 grid_for(context, total)));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.outputs[0]});
  });
}

KernelResult make_pad(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const Borders borders, bind_borders(spec));
  const std::string mode = spec.node.attr_string("mode", "constant");
  if (mode == "constant") return make_constant_pad(spec, borders, context);
  return make_mirrored_pad(spec, borders, mode, context);
}

}  // namespace

void register_copy_kernels(KernelTable* table) {
  table->add("Transpose", make_copy<transpose_box>);
  table->add("Expand", make_copy<expand_box>);
  table->add("Slice", make_copy<slice_box>);
  table->add("Tile", make_copy<tile_box>);
  table->add("Concat", make_concat);
  table->add("Split", make_split);
  table->add("Pad", make_pad);
}

}  // namespace tutti::cuda
