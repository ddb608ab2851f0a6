// Kernels of Conv and ConvTranspose: oneDNN where it is fast, plain loops elsewhere.
#include <algorithm>

#include "backends/cpu/conv_onednn.h"
#include "backends/cpu/conv_shape.h"
#include "backends/cpu/kernels.h"

namespace tutti::cpu {
namespace {

const void* optional_input(const KernelArgs& args, std::size_t i) {
  return i < args.inputs.size() ? args.inputs[i] : nullptr;
}

class PlainConvKernel : public Kernel {
 public:
  PlainConvKernel(ConvShape shape, ThreadPool* pool) : shape_(std::move(shape)), pool_(pool) {}
  Status run(const KernelArgs& args) override {
    return plain_conv(shape_, args.inputs[0], args.inputs[1], optional_input(args, 2),
                      args.outputs[0], pool_);
  }

 private:
  const ConvShape shape_;
  ThreadPool* pool_;
};

class OneDnnConvKernel : public Kernel {
 public:
  explicit OneDnnConvKernel(std::unique_ptr<SlicedConv> conv) : conv_(std::move(conv)) {}
  std::size_t workspace_bytes() const override { return conv_->workspace_bytes(); }
  bool consumes_constant(std::size_t i) const override { return i == 1 && conv_->packs_weights(); }
  Status run(const KernelArgs& args) override {
    return conv_->run(args.inputs[0], args.inputs[1], optional_input(args, 2), args.outputs[0],
                      args.workspace);
  }

 private:
  std::unique_ptr<SlicedConv> conv_;
};

Result<std::unique_ptr<Kernel>> make_conv(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const ConvShape shape, read_conv_shape(spec));
  const bool has_work = spec.outputs[0].element_count() > 0 && spec.inputs[0].element_count() > 0;
  const bool is_float = shape.dtype == DType::kFloat32 || shape.dtype == DType::kBFloat16 ||
                        shape.dtype == DType::kFloat16;
  if (has_work && is_float) {
    for (const DType compute : {shape.dtype, DType::kFloat32}) {
      auto conv = SlicedConv::create(shape, compute, spec.constants[1], context.pool);
      if (conv.ok())
        return std::unique_ptr<Kernel>(std::make_unique<OneDnnConvKernel>(*std::move(conv)));
      // Odd geometry, such as negative padding, counts as not implemented there.
      if (conv.status().code() == StatusCode::kResourceExhausted) return conv.status();
    }
  }
  return std::unique_ptr<Kernel>(std::make_unique<PlainConvKernel>(shape, context.pool));
}

}  // namespace

Result<ConvShape> read_conv_shape(const KernelSpec& spec) {
  const Dims& x = spec.inputs[0].dims;
  const Dims& w = spec.inputs[1].dims;
  const Dims& y = spec.outputs[0].dims;
  const std::size_t rank = x.size() - 2;
  const auto or_else = [&](std::string_view name, std::size_t count, std::int64_t fallback) {
    Dims values = spec.node.attr_ints(name);
    if (values.empty()) values.assign(count, fallback);
    return values;
  };
  ConvShape s;
  s.is_transposed = spec.node.type() == "ConvTranspose";
  s.dtype = spec.inputs[0].dtype;
  s.batch = x[0];
  s.in_channels = x[1];
  s.out_channels = y[1];
  s.group = spec.node.attr_int("group", 1);
  s.in.assign(x.begin() + 2, x.end());
  s.out.assign(y.begin() + 2, y.end());
  s.kernel.assign(w.begin() + 2, w.end());
  s.strides = or_else("strides", rank, 1);
  s.dilations = or_else("dilations", rank, 1);
  const Dims pads = or_else("pads", 2 * rank, 0);
  s.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  s.has_bias = spec.inputs.size() > 2 && spec.inputs[2].dtype != DType::kUndefined;
  const std::int64_t in_group = s.is_transposed ? w[0] / s.group : w[1];
  const std::int64_t outs = s.is_transposed ? w[1] * s.group : w[0];
  if (in_group * s.group != s.in_channels || outs != s.out_channels ||
      s.out_channels % s.group != 0) {
    return invalid_argument("weight ", w, " with group ", s.group, " does not fit input ", x);
  }
  for (std::size_t i = 0; i < rank; ++i) {
    // What remains after the last window (or before the end of the output), so that sizes agree.
    s.pads_end.push_back(
        s.is_transposed ? (s.in[i] - 1) * s.strides[i] - s.pads_begin[i] + s.extent(i) - s.out[i]
                        : std::max<std::int64_t>(0, (s.out[i] - 1) * s.strides[i] -
                                                        s.pads_begin[i] + s.extent(i) - s.in[i]));
  }
  return s;
}

void register_pool_kernels(KernelRegistry* registry);
void register_resize_kernels(KernelRegistry* registry);

void register_conv_kernels(KernelRegistry* registry) {
  registry->add("Conv", make_conv);
  registry->add("ConvTranspose", make_conv);
  register_pool_kernels(registry);
  register_resize_kernels(registry);
}

}  // namespace tutti::cpu
