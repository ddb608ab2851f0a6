// Sizes, Fill, Iota: tensors made from bound sizes and scalars.
#include <cstring>

#include "backends/cpu/movement_kernels.h"
#include "backends/cpu/strided_copy.h"
#include "base/dispatch.h"
#include "runtime/lambda_kernel.h"

namespace tutti::cpu {

KernelResult make_sizes(const KernelSpec& spec, CpuContext&) {
  TUTTI_ASSIGN_OR_RETURN(const Dims values, evaluate(spec.node.attr_dims("values"), spec.symbols));
  return make_lambda_kernel([values](const KernelArgs& args) {
    if (!values.empty()) {
      std::memcpy(args.outputs[0], values.data(), values.size() * sizeof(values[0]));
    }
    return Status();
  });
}

KernelResult make_fill(const KernelSpec& spec, CpuContext& context) {
  const TensorDesc& target = spec.outputs[0];
  const StridedCopy fill({{target.element_count()}, {0}, {1}, dtype_size(target.dtype)});
  return make_lambda_kernel([fill, pool = context.pool](const KernelArgs& args) {
    fill.run(args.inputs[0], args.outputs[0], pool);
    return Status();
  });
}

namespace {

// start + i * step, computed in double or i64 so that rounding does not pile up.
template <class T>
void write_iota(const KernelArgs& args, std::int64_t count) {
  using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  using C = ComputeType<T>;
  const auto start = static_cast<Wide>(static_cast<C>(*static_cast<const T*>(args.inputs[0])));
  const auto step = static_cast<Wide>(static_cast<C>(*static_cast<const T*>(args.inputs[1])));
  T* out = static_cast<T*>(args.outputs[0]);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(static_cast<C>(start + static_cast<Wide>(i) * step));
  }
}

}  // namespace

KernelResult make_iota(const KernelSpec& spec, CpuContext&) {
  const std::int64_t count = spec.outputs[0].element_count();
  const DType dtype = spec.outputs[0].dtype;
  return make_lambda_kernel([count, dtype](const KernelArgs& args) {
    return dispatch_dtype(dtype, [&](auto tag) {
      write_iota<typename decltype(tag)::type>(args, count);
      return Status();
    });
  });
}

}  // namespace tutti::cpu
