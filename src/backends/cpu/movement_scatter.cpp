// ScatterElements and ScatterND. Updates apply in order on one thread, so that repeated indices
// give one well-defined result.
#include <cstring>

#include "backends/cpu/movement_kernels.h"
#include "backends/cpu/strided.h"
#include "backends/cpu/strided_copy.h"
#include "backends/cpu/wrapping.h"
#include "base/dispatch.h"
#include "runtime/lambda_kernel.h"

namespace tutti::cpu {
namespace {

constexpr std::size_t kMaxRank = 32;

// target[i] = target[i] op update[i] over `count` elements.
using Combine = void (*)(std::byte* target, const std::byte* update, std::int64_t count);

template <class T, class Op>
void combine(std::byte* target, const std::byte* update, std::int64_t count) {
  using C = std::conditional_t<std::is_same_v<T, bool>, int, ComputeType<T>>;
  T* to = reinterpret_cast<T*>(target);
  const T* from = reinterpret_cast<const T*>(update);
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<T>(Op::apply(static_cast<C>(to[i]), static_cast<C>(from[i])));
  }
}

struct Sum {
  template <class C>
  static C apply(C a, C b) {
    return wrapping_add(a, b);
  }
};
struct Product {
  template <class C>
  static C apply(C a, C b) {
    return wrapping_mul(a, b);
  }
};
struct Largest {
  template <class C>
  static C apply(C a, C b) {
    return a > b || a != a ? a : b;
  }
};
struct Smallest {
  template <class C>
  static C apply(C a, C b) {
    return a < b || a != a ? a : b;
  }
};

// Null for reduction "none": a plain copy.
Result<Combine> find_combine(const KernelSpec& spec) {
  const std::string reduction = spec.node.attr_string("reduction", "none");
  Combine found = nullptr;
  if (reduction == "none") return found;
  TUTTI_RETURN_IF_ERROR(dispatch_dtype(spec.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (reduction == "add") found = combine<T, Sum>;
    if (reduction == "mul") found = combine<T, Product>;
    if (reduction == "max") found = combine<T, Largest>;
    if (reduction == "min") found = combine<T, Smallest>;
    return Status();
  }));
  if (found == nullptr) return invalid_argument("unknown reduction '", reduction, "'");
  return found;
}

StridedCopy whole_copy(const TensorDesc& desc) {
  return StridedCopy({{desc.element_count()}, {1}, {1}, dtype_size(desc.dtype)});
}

Status bad_index(std::int64_t index, std::int64_t size) {
  return invalid_argument("index ", index, " is not in [-", size, ", ", size, ")");
}

void apply_update(Combine combine, std::byte* to, const std::byte* from, std::int64_t count,
                  std::int64_t element) {
  if (combine != nullptr) {
    combine(to, from, count);
  } else {
    std::memcpy(to, from, static_cast<std::size_t>(count * element));
  }
}

}  // namespace

KernelResult make_scatter_elements(const KernelSpec& spec, CpuContext& context) {
  const auto axis = static_cast<std::size_t>(spec.node.attr_int("axis"));
  const Dims data = spec.inputs[0].dims;
  const Dims dims = spec.inputs[1].dims;
  if (spec.inputs[2].dims != dims) {
    return invalid_argument("indices have shape ", dims, " and updates ", spec.inputs[2].dims);
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d != axis && dims[d] > data[d]) {
      return invalid_argument("indices ", dims, " reach past data ", data, " in dimension ", d);
    }
  }
  TUTTI_ASSIGN_OR_RETURN(const Combine combine, find_combine(spec));
  const Dims strides = contiguous_strides(data);
  const auto element = static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype));
  const bool wide = spec.inputs[1].dtype == DType::kInt64;
  return make_lambda_kernel(
      [=, copy = whole_copy(spec.inputs[0]), pool = context.pool](const KernelArgs& args) {
        copy.run(args.inputs[0], args.outputs[0], pool);
        auto* out = static_cast<std::byte*>(args.outputs[0]);
        const auto* updates = static_cast<const std::byte*>(args.inputs[2]);
        const std::int64_t count = tutti::element_count(dims);
        std::int64_t at[kMaxRank];
        for (std::int64_t item = 0; item < count; ++item) {
          unravel(item, dims, at);
          const std::int64_t given = index_at(args.inputs[1], wide, item);
          const std::int64_t index = given < 0 ? given + data[axis] : given;
          if (index < 0 || index >= data[axis]) return bad_index(given, data[axis]);
          at[axis] = index;
          std::int64_t offset = 0;
          for (std::size_t d = 0; d < dims.size(); ++d) offset += at[d] * strides[d];
          apply_update(combine, out + offset * element, updates + item * element, 1, element);
        }
        return Status();
      });
}

KernelResult make_scatter_nd(const KernelSpec& spec, CpuContext& context) {
  const Dims data = spec.inputs[0].dims;
  const Dims& indices = spec.inputs[1].dims;
  const std::int64_t depth = indices.back();
  const Dims strides = contiguous_strides(data);
  std::int64_t row = 1;
  for (auto d = static_cast<std::size_t>(depth); d < data.size(); ++d) row *= data[d];
  std::int64_t items = 1;
  for (std::size_t d = 0; d + 1 < indices.size(); ++d) items *= indices[d];
  if (spec.inputs[2].element_count() != items * row) {
    return invalid_argument("updates have shape ", spec.inputs[2].dims, " for data ", data,
                            " and indices ", indices);
  }
  TUTTI_ASSIGN_OR_RETURN(const Combine combine, find_combine(spec));
  const auto element = static_cast<std::int64_t>(dtype_size(spec.inputs[0].dtype));
  const bool wide = spec.inputs[1].dtype == DType::kInt64;
  return make_lambda_kernel([=, copy = whole_copy(spec.inputs[0]),
                             pool = context.pool](const KernelArgs& args) {
    copy.run(args.inputs[0], args.outputs[0], pool);
    auto* out = static_cast<std::byte*>(args.outputs[0]);
    const auto* updates = static_cast<const std::byte*>(args.inputs[2]);
    if (row == 0) return Status();
    for (std::int64_t item = 0; item < items; ++item) {
      std::int64_t offset = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const std::int64_t size = data[static_cast<std::size_t>(k)];
        const std::int64_t given = index_at(args.inputs[1], wide, item * depth + k);
        const std::int64_t index = given < 0 ? given + size : given;
        if (index < 0 || index >= size) return bad_index(given, size);
        offset += index * strides[static_cast<std::size_t>(k)];
      }
      apply_update(combine, out + offset * element, updates + item * row * element, row, element);
    }
    return Status();
  });
}

}  // namespace tutti::cpu
