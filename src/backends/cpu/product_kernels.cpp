// Kernels of MatMul and Linear: batches, row blocks and column blocks around Gemm, or plain loops.
#include <algorithm>
#include <functional>

#include "backends/cpu/kernels.h"
#include "backends/cpu/product_gemm.h"
#include "backends/cpu/product_plain.h"

namespace tutti::cpu {
namespace {

// One operation with all that both operators have.
struct Product {
  DType dtype = DType::kFloat32;
  std::int64_t rows = 0;
  std::int64_t k = 0;
  std::int64_t columns = 0;
  bool transpose_b = false;
  // Elements from the start of a, b and c, one entry a matrix of the batch.
  std::vector<std::int64_t> a_offsets{0};
  std::vector<std::int64_t> b_offsets{0};
  std::int64_t a_elements = 0;
  std::int64_t b_elements = 0;
  const Tensor* constant_b = nullptr;  // only with one matrix b
  bool has_bias = false;
  bool has_residual = false;
  std::string activation;

  std::int64_t batch() const { return static_cast<std::int64_t>(a_offsets.size()); }
  std::int64_t c_elements() const { return batch() * rows * columns; }
};

class EmptyKernel : public Kernel {
 public:
  Status run(const KernelArgs& /*args*/) override { return {}; }
};

const void* optional_input(const KernelArgs& args, std::size_t i) {
  return i < args.inputs.size() ? args.inputs[i] : nullptr;
}

class PlainProductKernel : public Kernel {
 public:
  PlainProductKernel(Product product, ThreadPool* pool) : p_(std::move(product)), pool_(pool) {}

  Status run(const KernelArgs& args) override {
    const auto size = static_cast<std::int64_t>(dtype_size(p_.dtype));
    const auto* a = static_cast<const std::byte*>(args.inputs[0]);
    const auto* b = static_cast<const std::byte*>(args.inputs[1]);
    auto* c = static_cast<std::byte*>(args.outputs[0]);
    for (std::size_t i = 0; i < p_.a_offsets.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(
          plain_product(p_.dtype, p_.rows, p_.k, p_.columns, p_.transpose_b,
                        a + p_.a_offsets[i] * size, b + p_.b_offsets[i] * size,
                        c + static_cast<std::int64_t>(i) * p_.rows * p_.columns * size, pool_));
    }
    if (!p_.has_bias && !p_.has_residual && p_.activation.empty()) return {};
    return plain_epilogue(p_.dtype, p_.batch() * p_.rows, p_.columns, p_.activation,
                          optional_input(args, 2), optional_input(args, 3), c, pool_);
  }

 private:
  Product p_;
  ThreadPool* pool_;
};

class GemmKernel : public Kernel {
 public:
  static Result<std::unique_ptr<GemmKernel>> create(Product product, DType compute,
                                                    ThreadPool* pool) {
    std::unique_ptr<GemmKernel> kernel(new GemmKernel(std::move(product), compute, pool));
    TUTTI_RETURN_IF_ERROR(kernel->prepare());
    return kernel;
  }

  std::size_t workspace_bytes() const override { return workspace_; }
  bool consumes_constant(std::size_t i) const override { return i == 1 && gemms_[0]->packs_b(); }
  Status run(const KernelArgs& args) override;

 private:
  // What one run's work items share; kept together so that the loop body captures one pointer.
  struct Run {
    const std::byte* a;
    const std::byte* b;
    const std::byte* bias;
    const std::byte* residual;
    std::byte* c;
    std::byte* scratch;
    std::vector<Status>* failures;
  };

  GemmKernel(Product product, DType compute, ThreadPool* pool)
      : p_(std::move(product)),
        compute_(compute),
        pool_(pool),
        failures_(static_cast<std::size_t>(pool->size())) {}
  Status prepare();
  void choose_blocks();
  Status run_item(const Run& run, std::int64_t item, int worker);
  bool converts() const { return compute_ != p_.dtype; }

  Product p_;
  DType compute_;
  ThreadPool* pool_;
  std::int64_t block_rows_ = 0;
  std::int64_t block_columns_ = 0;
  std::vector<std::unique_ptr<Gemm>> gemms_;  // one a column block
  std::vector<Status> failures_;              // by worker
  std::size_t scratch_ = 0;                   // for each worker
  std::size_t workspace_ = 0;
};

// Enough blocks that every worker has a few, none so small that oneDNN's start-up shows.
void GemmKernel::choose_blocks() {
  const std::int64_t workers = pool_->size();
  block_rows_ = p_.rows;
  block_columns_ = p_.columns;
  const std::int64_t work = p_.batch() * p_.rows * p_.k * p_.columns;
  if (workers == 1 || work < (1 << 19) || p_.batch() >= 2 * workers) return;
  constexpr std::int64_t kLeastRows = 48;
  const std::int64_t wanted = (3 * workers + p_.batch() - 1) / p_.batch();
  const std::int64_t rows = std::max(kLeastRows, (p_.rows + wanted - 1) / wanted);
  block_rows_ = std::min(p_.rows, (rows + 15) / 16 * 16);
  const std::int64_t blocks = (p_.rows + block_rows_ - 1) / block_rows_ * p_.batch();
  if (blocks >= workers || p_.has_residual || p_.columns < 128) return;
  // Few rows, such as one embedding: share out the columns.
  block_columns_ = std::max<std::int64_t>(64, (p_.columns + workers - 1) / workers);
  block_columns_ = (block_columns_ + 63) / 64 * 64;
}

Status GemmKernel::prepare() {
  choose_blocks();
  const auto element = static_cast<std::int64_t>(dtype_size(compute_));
  const std::byte* constant = nullptr;
  Tensor converted;
  if (p_.constant_b != nullptr) {
    constant = p_.constant_b->data();
    if (converts()) {
      TUTTI_ASSIGN_OR_RETURN(converted, Tensor::allocate(compute_, {p_.b_elements}));
      to_floats(p_.dtype, constant, converted.mutable_data_as<float>(), p_.b_elements, pool_);
      constant = converted.data();
    }
  }
  const std::int64_t b_stride = p_.transpose_b ? p_.k : p_.columns;
  for (std::int64_t column = 0; column < p_.columns; column += block_columns_) {
    GemmSpec spec{.dtype = compute_,
                  .rows = p_.rows,
                  .block_rows = block_rows_,
                  .k = p_.k,
                  .columns = std::min(block_columns_, p_.columns - column),
                  .transpose_b = p_.transpose_b,
                  .b_stride = b_stride,
                  .c_stride = p_.columns,
                  .has_bias = p_.has_bias,
                  .has_residual = p_.has_residual,
                  .activation = p_.activation,
                  .workers = pool_->size()};
    if (constant != nullptr) {
      spec.constant_b = constant + column * (p_.transpose_b ? b_stride : 1) * element;
    }
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, Gemm::create(spec));
    scratch_ = std::max(scratch_, gemm->scratch_bytes());
    gemms_.push_back(std::move(gemm));
  }
  workspace_ = scratch_ * static_cast<std::size_t>(pool_->size());
  if (converts()) {
    const auto bytes = [](std::int64_t count) {
      return align64(static_cast<std::size_t>(count) * sizeof(float));
    };
    workspace_ += bytes(p_.a_elements) + bytes(constant == nullptr ? p_.b_elements : 0) +
                  bytes(p_.c_elements()) + bytes(p_.has_bias ? p_.columns : 0) +
                  bytes(p_.has_residual ? p_.c_elements() : 0);
  }
  return {};
}

Status GemmKernel::run(const KernelArgs& args) {
  auto* workspace = static_cast<std::byte*>(args.workspace);
  Run run{static_cast<const std::byte*>(args.inputs[0]),
          static_cast<const std::byte*>(args.inputs[1]),
          static_cast<const std::byte*>(optional_input(args, 2)),
          static_cast<const std::byte*>(optional_input(args, 3)),
          static_cast<std::byte*>(args.outputs[0]),
          workspace,
          &failures_};
  if (converts()) {
    std::byte* next = workspace + scratch_ * static_cast<std::size_t>(pool_->size());
    const auto take = [&](const std::byte* source, std::int64_t count) -> std::byte* {
      std::byte* target = next;
      next += align64(static_cast<std::size_t>(count) * sizeof(float));
      if (source != nullptr) {
        to_floats(p_.dtype, source, reinterpret_cast<float*>(target), count, pool_);
      }
      return target;
    };
    run.a = take(run.a, p_.a_elements);
    if (!gemms_[0]->packs_b()) run.b = take(run.b, p_.b_elements);
    if (p_.has_bias) run.bias = take(run.bias, p_.columns);
    if (p_.has_residual) run.residual = take(run.residual, p_.c_elements());
    run.c = take(nullptr, p_.c_elements());
  }
  const std::int64_t items =
      p_.batch() * gemms_[0]->blocks() * static_cast<std::int64_t>(gemms_.size());
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    Status& status = failures_[static_cast<std::size_t>(worker)];
    for (std::int64_t item = begin; item < end && status.ok(); ++item) {
      status = run_item(run, item, worker);
    }
  };
  for (Status& status : failures_) status = Status();
  pool_->parallel_for(items, 1, std::ref(body));
  for (const Status& status : failures_) TUTTI_RETURN_IF_ERROR(status);
  if (converts()) {
    from_floats(p_.dtype, reinterpret_cast<const float*>(run.c), args.outputs[0], p_.c_elements(),
                pool_);
  }
  return {};
}

Status GemmKernel::run_item(const Run& run, std::int64_t item, int worker) {
  const auto element = static_cast<std::int64_t>(dtype_size(compute_));
  const auto columns = static_cast<std::int64_t>(gemms_.size());
  const std::int64_t block = item / columns % gemms_[0]->blocks();
  const auto matrix = static_cast<std::size_t>(item / columns / gemms_[0]->blocks());
  const std::int64_t column = item % columns * block_columns_;
  const std::int64_t c_offset = static_cast<std::int64_t>(matrix) * p_.rows * p_.columns + column;
  const std::int64_t b_offset =
      p_.b_offsets[matrix] + column * (p_.transpose_b ? p_.k : std::int64_t{1});
  return gemms_[static_cast<std::size_t>(item % columns)]->run(
      worker, block, run.a + p_.a_offsets[matrix] * element,
      run.b == nullptr ? nullptr : run.b + b_offset * element,
      run.bias == nullptr ? nullptr : run.bias + column * element,
      run.residual == nullptr ? nullptr : run.residual + c_offset * element,
      run.c + c_offset * element, run.scratch + scratch_ * static_cast<std::size_t>(worker));
}

Result<std::unique_ptr<Kernel>> make_product(Product product, CpuContext& context) {
  if (product.c_elements() == 0) return std::unique_ptr<Kernel>(std::make_unique<EmptyKernel>());
  const bool is_float = product.dtype == DType::kFloat32 || product.dtype == DType::kBFloat16 ||
                        product.dtype == DType::kFloat16;
  // oneDNN's call costs as much as some thousand operations.
  const bool is_tiny = product.rows * product.k * product.columns < 512;
  if (is_float && product.k > 0 && !is_tiny) {
    for (const DType compute : {product.dtype, DType::kFloat32}) {
      auto kernel = GemmKernel::create(product, compute, context.pool);
      if (kernel.ok()) return std::unique_ptr<Kernel>(*std::move(kernel));
      if (kernel.status().code() != StatusCode::kUnimplemented) return kernel.status();
    }
  }
  return std::unique_ptr<Kernel>(
      std::make_unique<PlainProductKernel>(std::move(product), context.pool));
}

// Offsets of each matrix of an operand whose batch dimensions broadcast to `batch`.
std::vector<std::int64_t> batch_offsets(const Dims& operand, const Dims& batch) {
  const std::size_t own = operand.size() - 2;
  const std::size_t shift = batch.size() - own;
  Dims strides(batch.size(), 0);
  std::int64_t stride = operand[own] * operand[own + 1];
  for (std::size_t d = own; d-- > 0;) {
    if (operand[d] != 1) strides[d + shift] = stride;
    stride *= operand[d];
  }
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(element_count(batch)));
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    std::size_t rest = i;
    for (std::size_t d = batch.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(batch[d]);
      offsets[i] += static_cast<std::int64_t>(rest % size) * strides[d];
      rest /= size;
    }
  }
  return offsets;
}

Result<std::unique_ptr<Kernel>> make_matmul(const KernelSpec& spec, CpuContext& context) {
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
  p.a_elements = element_count(a);
  p.b_elements = element_count(b);
  TUTTI_ASSIGN_OR_RETURN(
      const Dims batch, broadcast_dims(Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2)));
  const std::int64_t matrices = element_count(batch);
  if (matrices == 0) return std::unique_ptr<Kernel>(std::make_unique<EmptyKernel>());
  if (element_count(Dims(b.begin(), b.end() - 2)) == 1) {
    // One b for all: the batch is more rows. (A batch of several then comes from a.)
    p.rows *= matrices;
    p.constant_b = spec.constants[1];
  } else {
    p.a_offsets = batch_offsets(a, batch);
    p.b_offsets = batch_offsets(b, batch);
  }
  return make_product(std::move(p), context);
}

Result<std::unique_ptr<Kernel>> make_linear(const KernelSpec& spec, CpuContext& context) {
  const Dims& x = spec.inputs[0].dims;
  const Dims& w = spec.inputs[1].dims;
  Product p;
  p.dtype = spec.inputs[0].dtype;
  p.transpose_b = spec.node.attr_int("transpose_w") != 0;
  p.k = x.back();
  p.columns = w[p.transpose_b ? 0 : 1];
  if (w[p.transpose_b ? 1 : 0] != p.k)
    return invalid_argument("inner sizes differ: ", x, " and ", w);
  p.rows = element_count(Dims(x.begin(), x.end() - 1));
  p.a_elements = element_count(x);
  p.b_elements = element_count(w);
  p.constant_b = spec.constants[1];
  p.has_bias = spec.inputs.size() > 2 && spec.inputs[2].dtype != DType::kUndefined;
  p.has_residual = spec.inputs.size() > 3 && spec.inputs[3].dtype != DType::kUndefined;
  p.activation = spec.node.attr_string("activation");
  return make_product(std::move(p), context);
}

}  // namespace

void register_product_kernels(KernelRegistry* registry) {
  registry->add("MatMul", make_matmul);
  registry->add("Linear", make_linear);
}

}  // namespace tutti::cpu
