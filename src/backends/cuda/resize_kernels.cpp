// Resize: one pass an axis, last axis first, so that the early passes run on the smaller tensors.
#include <algorithm>

#include "backends/cpu/resize_taps.h"
#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/kernels.h"

namespace tutti::cuda {
namespace {

struct Pass {
  GeneratedKernel kernel;
  std::shared_ptr<DeviceMemory> index;
  std::shared_ptr<DeviceMemory> weight;

  const void* weights() const { return weight == nullptr ? nullptr : weight->data(); }
};

// The types of a pass's ends, and the one it computes in; names of the prelude.
struct PassTypes {
  std::string x;
  std::string y;
  std::string compute;
};

Result<Pass> make_pass(RankContext& context, const AxisView& view, std::int64_t out,
                       const cpu::ResizeTaps& taps, bool is_nearest, const PassTypes& types) {
  const std::int64_t total = view.outer * out * view.inner;
  const bool is_wide = needs_wide_index({total});
  KernelSource source;
  source.entry = "resize";
  source.files = {"pointwise.cuh", "resize.cuh"};
  define_index(is_wide, &source);
  source.defines.emplace_back("X", types.x);
  source.defines.emplace_back("Y", types.y);
  source.defines.emplace_back("C", types.compute);
  source.defines.emplace_back("TAPS", std::to_string(taps.count));
  source.defines.emplace_back("IS_NEAREST", is_nearest ? "1" : "0");
  TUTTI_ASSIGN_OR_RETURN(auto index, context.place(taps.index.data(), taps.index.size() * 4));
  std::shared_ptr<DeviceMemory> weight;
  if (!is_nearest) {
    TUTTI_ASSIGN_OR_RETURN(weight, context.place(taps.weight.data(), taps.weight.size() * 8));
  }
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(context, std::move(source), 4,
                              {total, divisor_word(view.inner, is_wide), view.inner,
                               divisor_word(out, is_wide), out, view.size},
                              grid_for(context, total)));
  return Pass{std::move(kernel), std::move(index), std::move(weight)};
}

KernelResult make_resize(const KernelSpec& spec, RankContext& context) {
  const Node& node = spec.node;
  Dims dims = spec.inputs[0].dims;
  const Dims& out = spec.outputs[0].dims;
  const DType dtype = spec.inputs[0].dtype;
  if (element_count(out) == 0) return make_empty_kernel();
  if (element_count(dims) == 0) {
    return invalid_argument("input ", dims, " has nothing to resize to ", out);
  }
  const cpu::ResizeOptions options{
      .mode = node.attr_string("mode", "nearest"),
      .transformation = node.attr_string("coordinate_transformation_mode", "half_pixel"),
      .nearest_mode = node.attr_string("nearest_mode", "round_prefer_floor"),
      .cubic_coefficient = node.attr_float("cubic_coeff_a", -0.75),
      .excludes_outside = node.attr_int("exclude_outside") != 0,
      .antialiases = node.attr_int("antialias") != 0};
  const Dims axes = node.attr_ints("axes");
  const std::vector<double> scales = node.attr_floats("scales");
  Dims crop = node.attr_ints("crop");
  crop.resize(axes.size(), 0);
  std::vector<std::size_t> order(axes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return axes[a] > axes[b]; });
  const bool is_nearest = options.mode == "nearest";
  const bool is_narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const std::string stored = type_name(dtype);
  const std::string compute = is_narrow || dtype == DType::kFloat32 ? "f32" : "f64";
  // Between passes values keep the precision that they are computed in.
  const std::string between = is_nearest ? stored : compute;
  const std::size_t width = is_nearest ? dtype_size(dtype) : compute == "f32" ? 4 : 8;
  std::vector<Pass> passes;
  std::size_t buffer_bytes = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[order[i]]);
    const double scale = scales.empty()
                             ? static_cast<double>(out[axis]) / static_cast<double>(dims[axis])
                             : scales[order[i]];
    const AxisView view = view_axis(dims, axes[order[i]]);
    const bool is_last = i + 1 == order.size();
    const std::int64_t cropped = crop[order[i]];
    auto taps = cpu::make_resize_taps(options, dims[axis], cropped + out[axis], scale);
    taps.drop_front(cropped);
    TUTTI_ASSIGN_OR_RETURN(
        Pass pass, make_pass(context, view, out[axis], std::move(taps), is_nearest,
                             {i == 0 ? stored : between, is_last ? stored : between, compute}));
    dims[axis] = out[axis];
    if (!is_last) {
      const std::size_t bytes = static_cast<std::size_t>(element_count(dims)) * width;
      buffer_bytes = std::max(buffer_bytes, (bytes + 63) / 64 * 64);
    }
    passes.push_back(std::move(pass));
  }
  if (passes.empty()) {
    return make_lambda_kernel([bytes = spec.inputs[0].byte_size(),
                               stream = context.stream](const KernelArgs& args) {
      return to_status(
          cudaMemcpyAsync(args.outputs[0], args.inputs[0], bytes, cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
    });
  }
  return make_lambda_kernel(
      [passes = std::move(passes), buffer_bytes](const KernelArgs& args) mutable {
        // Two buffers take turns.
        const void* from = args.inputs[0];
        for (std::size_t i = 0; i < passes.size(); ++i) {
          void* to = i + 1 == passes.size()
                         ? args.outputs[0]
                         : static_cast<std::byte*>(args.workspace) + (i % 2) * buffer_bytes;
          TUTTI_RETURN_IF_ERROR(
              passes[i].kernel.run({from, to, passes[i].index->data(), passes[i].weights()}));
          from = to;
        }
        return Status();
      },
      2 * buffer_bytes);
}

}  // namespace

void register_resize_kernels(KernelTable* table) { table->add("Resize", make_resize); }

}  // namespace tutti::cuda
