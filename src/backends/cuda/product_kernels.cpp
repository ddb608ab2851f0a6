// MatMul and Linear: cuBLASLt where it has the type, a plain kernel elsewhere; what it cannot fuse
// follows as one generated kernel.
#include <algorithm>
#include <optional>

#include "backends/cuda/blas.h"
#include "backends/cuda/elementwise.h"
#include "backends/cuda/kernels.h"

namespace tutti::cuda {
namespace {

// One operation with all that both operators have.
struct Product {
  DType dtype = DType::kFloat32;
  std::int64_t rows = 0;
  std::int64_t k = 0;
  std::int64_t columns = 0;
  bool transpose_b = false;
  // Elements from the start of a and b, one entry a matrix of the batch.
  Dims a_offsets{0};
  Dims b_offsets{0};
  bool has_bias = false;
  bool has_residual = false;
  std::string activation;

  std::int64_t batch() const { return static_cast<std::int64_t>(a_offsets.size()); }
};

// A stretch of matrices that lie evenly apart in both operands.
struct Even {
  std::size_t first = 0;
  std::size_t count = 1;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
};

std::vector<Even> even_stretches(const Product& p) {
  std::vector<Even> stretches;
  for (std::size_t i = 0; i < p.a_offsets.size(); ++i) {
    if (!stretches.empty()) {
      Even& last = stretches.back();
      const std::int64_t a = p.a_offsets[i] - p.a_offsets[i - 1];
      const std::int64_t b = p.b_offsets[i] - p.b_offsets[i - 1];
      if (last.count == 1) {
        last.a_stride = a;
        last.b_stride = b;
      }
      if (last.a_stride == a && last.b_stride == b) {
        ++last.count;
        continue;
      }
    }
    stretches.push_back({i, 1, 0, 0});
  }
  return stretches;
}

// Bytes to which all matrices from `offset` on, `stride` apart, are aligned.
std::uint32_t alignment_of(DType dtype, std::int64_t offset, std::int64_t stride) {
  const auto width = static_cast<std::int64_t>(dtype_size(dtype));
  std::int64_t bytes = 16;
  while (bytes > width && ((offset * width) % bytes != 0 || (stride * width) % bytes != 0)) {
    bytes /= 2;
  }
  return static_cast<std::uint32_t>(bytes);
}

// y = activation(c + bias) + residual, in place, as far as it is still to be done.
Result<std::optional<GeneratedKernel>> make_epilogue(const Product& p, RankContext& context) {
  std::optional<GeneratedKernel> none;
  if (!p.has_bias && !p.has_residual && p.activation.empty()) return none;
  static const std::map<std::string_view, std::string_view> calls = {{"", ""},
                                                                     {"relu", "op_relu"},
                                                                     {"gelu", "op_gelu"},
                                                                     {"silu", "op_silu"},
                                                                     {"sigmoid", "op_sigmoid"},
                                                                     {"gelu_tanh", "op_gelu_tanh"},
                                                                     {"tanh", "tanh"}};
  const auto call = calls.find(p.activation);
  if (call == calls.end()) return unimplemented("activation '", p.activation, "'");
  ElementwiseSpec spec;
  spec.entry = "product_epilogue";
  spec.dims = {p.batch() * p.rows, p.columns};
  spec.outputs = {p.dtype};
  spec.inputs = {{p.dtype, spec.dims}};
  std::string value = "x0";
  if (p.has_bias) {
    value = str_cat("(", value, " + x", spec.inputs.size(), ")");
    spec.inputs.push_back({p.dtype, {p.columns}});
  }
  value = str_cat(call->second, "(", value, ")");
  if (p.has_residual) {
    value += str_cat(" + x", spec.inputs.size());
    spec.inputs.push_back({p.dtype, spec.dims});
  }
  spec.body = str_cat("      y0 = ", value, ";\n");
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel, make_elementwise(context, spec));
  return std::optional<GeneratedKernel>(std::move(kernel));
}

class ProductKernel : public Kernel {
 public:
  ProductKernel(Product product, std::optional<GeneratedKernel> epilogue)
      : p_(std::move(product)), epilogue_(std::move(epilogue)) {}

 protected:
  // Bias and residual as far as the product itself has left them.
  Status finish(const KernelArgs& args, bool has_bias, bool has_residual) {
    if (!epilogue_) return {};
    const void* addresses[4] = {args.outputs[0]};
    std::size_t count = 1;
    if (has_bias) addresses[count++] = optional_input(args, 2);
    if (has_residual) addresses[count++] = optional_input(args, 3);
    addresses[count++] = args.outputs[0];
    return epilogue_->run(std::span(addresses, count));
  }

  const Product p_;

 private:
  std::optional<GeneratedKernel> epilogue_;
};

class PlainProductKernel final : public ProductKernel {
 public:
  PlainProductKernel(Product product, GeneratedKernel kernel, std::shared_ptr<DeviceMemory> offsets,
                     std::optional<GeneratedKernel> epilogue)
      : ProductKernel(std::move(product), std::move(epilogue)),
        kernel_(std::move(kernel)),
        offsets_(std::move(offsets)) {}

  Status run(const KernelArgs& args) override {
    TUTTI_RETURN_IF_ERROR(
        kernel_.run({args.inputs[0], args.inputs[1], args.outputs[0], offsets_->data()}));
    return finish(args, p_.has_bias, p_.has_residual);
  }

 private:
  GeneratedKernel kernel_;
  std::shared_ptr<DeviceMemory> offsets_;
};

KernelResult make_plain(Product p, RankContext& context) {
  std::string sum = compute_name(p.dtype);
  if (!is_floating(p.dtype)) sum = dtype_size(p.dtype) == 8 ? "u64" : "u32";
  if (p.dtype == DType::kBool) return invalid_argument("matrix products of bool are not defined");
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < p.a_offsets.size(); ++i) {
    offsets.insert(offsets.end(), {p.a_offsets[i], p.b_offsets[i]});
  }
  if (p.batch() > 65535)
    return unimplemented("a batch of ", p.batch(), " products of ", dtype_name(p.dtype),
                         ", expected at most 65535");
  TUTTI_ASSIGN_OR_RETURN(auto placed,
                         context.place(offsets.data(), offsets.size() * sizeof offsets[0]));
  KernelSource source;
  source.entry = "product";
  source.files = {"product.cuh"};
  source.defines.emplace_back("T", type_name(p.dtype));
  source.defines.emplace_back("S", sum);
  const std::int64_t across = (p.columns + 15) / 16;
  Grid grid;
  grid.blocks = (p.rows + 15) / 16 * across;
  grid.blocks_y = p.batch();
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(
          context, std::move(source), 4,
          {p.rows, p.columns, p.k, p.transpose_b ? 1 : p.columns, p.transpose_b ? p.k : 1, across},
          grid));
  TUTTI_ASSIGN_OR_RETURN(auto epilogue, make_epilogue(p, context));
  return std::unique_ptr<Kernel>(std::make_unique<PlainProductKernel>(
      std::move(p), std::move(kernel), std::move(placed), std::move(epilogue)));
}

class BlasKernel final : public ProductKernel {
 public:
  BlasKernel(Product product, std::vector<Even> stretches,
             std::vector<std::unique_ptr<BlasProduct>> products, bool fuses_bias,
             bool fuses_residual, std::optional<GeneratedKernel> epilogue)
      : ProductKernel(std::move(product), std::move(epilogue)),
        stretches_(std::move(stretches)),
        products_(std::move(products)),
        fuses_bias_(fuses_bias),
        fuses_residual_(fuses_residual) {}

  std::size_t workspace_bytes() const override {
    std::size_t most = 0;
    for (const auto& product : products_) most = std::max(most, product->workspace_bytes());
    return most;
  }

  Status run(const KernelArgs& args) override {
    const auto size = static_cast<std::int64_t>(dtype_size(p_.dtype));
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
      const std::size_t first = stretches_[i].first;
      const auto place = static_cast<std::int64_t>(first) * p_.rows * p_.columns * size;
      BlasAddresses at;
      at.a = static_cast<const std::byte*>(args.inputs[0]) + p_.a_offsets[first] * size;
      at.b = static_cast<const std::byte*>(args.inputs[1]) + p_.b_offsets[first] * size;
      at.c = static_cast<std::byte*>(args.outputs[0]) + place;
      at.bias = fuses_bias_ ? optional_input(args, 2) : nullptr;
      if (fuses_residual_) {
        at.residual = static_cast<const std::byte*>(optional_input(args, 3)) + place;
      }
      at.workspace = args.workspace;
      TUTTI_RETURN_IF_ERROR(products_[i]->run(at));
    }
    return finish(args, p_.has_bias && !fuses_bias_, p_.has_residual && !fuses_residual_);
  }

 private:
  const std::vector<Even> stretches_;
  const std::vector<std::unique_ptr<BlasProduct>> products_;
  const bool fuses_bias_;
  const bool fuses_residual_;
};

KernelResult make_blas(const Product& p, RankContext& context, bool fuses) {
  const std::vector<Even> stretches = even_stretches(p);
  const bool knows_activation =
      p.activation.empty() || p.activation == "relu" || p.activation == "gelu_tanh";
  // The library adds the residual before its activation, we after it.
  const bool fuses_bias = fuses && p.has_bias && knows_activation;
  const bool fuses_residual = fuses && p.has_residual && p.activation.empty();
  const bool fuses_activation = fuses && knows_activation;
  std::vector<std::unique_ptr<BlasProduct>> products;
  for (const Even& even : stretches) {
    BlasShape shape;
    shape.dtype = p.dtype;
    shape.m = p.rows;
    shape.n = p.columns;
    shape.k = p.k;
    shape.transpose_b = p.transpose_b;
    shape.batch = static_cast<std::int64_t>(even.count);
    shape.a_stride = even.a_stride;
    shape.b_stride = even.b_stride;
    shape.c_stride = p.rows * p.columns;
    const auto first = static_cast<std::int64_t>(even.first);
    shape.a_alignment = alignment_of(p.dtype, p.a_offsets[even.first], even.a_stride);
    shape.b_alignment = alignment_of(p.dtype, p.b_offsets[even.first], even.b_stride);
    shape.c_alignment = alignment_of(p.dtype, first * shape.c_stride, shape.c_stride);
    shape.has_bias = fuses_bias;
    shape.has_residual = fuses_residual;
    if (fuses_activation) shape.activation = p.activation;
    if (context.is_dry) continue;
    TUTTI_ASSIGN_OR_RETURN(auto product, BlasProduct::create(*context.blas, context.stream, shape));
    products.push_back(std::move(product));
  }
  Product rest = p;
  rest.has_bias = p.has_bias && !fuses_bias;
  rest.has_residual = p.has_residual && !fuses_residual;
  if (fuses_activation) rest.activation = "";
  TUTTI_ASSIGN_OR_RETURN(auto epilogue, make_epilogue(rest, context));
  return std::unique_ptr<Kernel>(std::make_unique<BlasKernel>(
      p, stretches, std::move(products), fuses_bias, fuses_residual, std::move(epilogue)));
}

KernelResult make_product(Product p, RankContext& context) {
  if (p.rows * p.columns * p.batch() == 0) return make_empty_kernel();
  if (is_floating(p.dtype) && p.k > 0 && (context.blas != nullptr || context.is_dry)) {
    for (const bool fuses : {true, false}) {
      auto kernel = make_blas(p, context, fuses);
      const bool is_refused = kernel.status().code() == StatusCode::kUnimplemented;
      // Without a device, what the library fuses and what it takes at all is not known.
      if (!is_refused && !(kernel.ok() && context.is_dry)) return kernel;
    }
  }
  return make_plain(std::move(p), context);
}

// For each matrix of the batch, where the operand's one starts.
Dims batch_offsets(const Dims& dims, const Dims& batch) {
  const Dims own(dims.begin(), dims.end() - 2);
  const std::int64_t matrix = dims[dims.size() - 2] * dims.back();
  const Dims strides = contiguous_strides(own);
  const std::size_t shift = batch.size() - own.size();
  Dims offsets;
  for (std::int64_t i = 0; i < element_count(batch); ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (std::size_t d = batch.size(); d-- > 0;) {
      const std::int64_t at = rest % batch[d];
      rest /= batch[d];
      if (d >= shift && own[d - shift] != 1) offset += at * strides[d - shift];
    }
    offsets.push_back(offset * matrix);
  }
  return offsets;
}

KernelResult make_matmul(const KernelSpec& spec, RankContext& context) {
  const Dims& a = spec.inputs[0].dims;
  const Dims& b = spec.inputs[1].dims;
  if (a[a.size() - 1] != b[b.size() - 2]) {
    return invalid_argument("inner sizes differ: ", a, " and ", b);
  }
  Product p;
  p.dtype = spec.inputs[0].dtype;
  p.rows = a[a.size() - 2];
  p.k = a.back();
  p.columns = b.back();
  TUTTI_ASSIGN_OR_RETURN(
      const Dims batch, broadcast_dims(Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2)));
  const std::int64_t matrices = element_count(batch);
  if (matrices == 0) return make_empty_kernel();
  if (element_count(Dims(b.begin(), b.end() - 2)) == 1) {
    // One b for all: the batch is more rows. (A batch of several then comes from a.)
    p.rows *= matrices;
  } else {
    p.a_offsets = batch_offsets(a, batch);
    p.b_offsets = batch_offsets(b, batch);
  }
  return make_product(std::move(p), context);
}

KernelResult make_linear(const KernelSpec& spec, RankContext& context) {
  const Dims& x = spec.inputs[0].dims;
  const Dims& w = spec.inputs[1].dims;
  Product p;
  p.dtype = spec.inputs[0].dtype;
  p.transpose_b = spec.node.attr_int("transpose_w") != 0;
  p.k = x.back();
  p.columns = w[p.transpose_b ? 0 : 1];
  if (w[p.transpose_b ? 1 : 0] != p.k) {
    return invalid_argument("inner sizes differ: ", x, " and ", w);
  }
  p.rows = element_count(Dims(x.begin(), x.end() - 1));
  p.has_bias = has_input(spec, 2);
  p.has_residual = has_input(spec, 3);
  p.activation = spec.node.attr_string("activation");
  return make_product(std::move(p), context);
}

}  // namespace

void register_product_kernels(KernelTable* table) {
  table->add("MatMul", make_matmul);
  table->add("Linear", make_linear);
}

}  // namespace tutti::cuda
