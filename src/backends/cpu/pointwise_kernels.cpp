// Runs pointwise programs: blocks of the output go through all loops of a region while they are in
// the first-level cache.
#include <algorithm>

#include "backends/cpu/convert.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pointwise_program.h"
#include "backends/cpu/strided.h"
#include "runtime/strides.h"

namespace tutti::cpu {
namespace {

constexpr std::int64_t kRowMinimum = 192;     // shorter rows share a block
constexpr std::int64_t kShortRow = 16;        // a call for each would cost more than its elements
constexpr std::int64_t kPieceCost = 1 << 16;  // additions worth waking a thread for
constexpr std::size_t kScratchTarget = 24 << 10;  // of a first-level cache of 32 KB or more
constexpr std::size_t kMaxRank = 16;

enum class Access { kDense, kScalar, kStrided };

struct Operand {
  DType dtype = DType::kUndefined;
  std::size_t size = 0;  // bytes of a stored element
  Access access = Access::kDense;
  Dims strides;  // over the collapsed dimensions
  bool is_converted = false;
  int raw_slot = -1;  // for strided 16-bit floats, before they are converted
  int slot = -1;      // scratch block; -1: used where it lies
};

// What one thread keeps while it walks over blocks.
struct Walk {
  const KernelArgs* args = nullptr;
  std::byte* scratch = nullptr;
};

class PointwiseKernel final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelSpec& spec, CpuContext& context);

  std::size_t workspace_bytes() const override {
    return scratch_bytes_ * static_cast<std::size_t>(pool_->size());
  }

  Status run(const KernelArgs& args) override {
    if (total_ == 0) return {};
    const auto body = [this, &args](std::int64_t begin, std::int64_t end, int worker) {
      Walk walk{&args, static_cast<std::byte*>(args.workspace) +
                           scratch_bytes_ * static_cast<std::size_t>(worker)};
      fill_scalars(walk);
      for (std::int64_t block = begin; block < end; ++block) run_block(walk, block);
    };
    pool_->parallel_for(blocks_, grain_, body);
    return {};
  }

 private:
  explicit PointwiseKernel(ThreadPool* pool) : pool_(pool) {}

  std::byte* slot(const Walk& walk, int index) const {
    return walk.scratch + static_cast<std::size_t>(index) * slot_bytes_;
  }

  void place_operands();
  void choose_blocks();

  void fill_scalars(const Walk& walk) const;
  void run_block(const Walk& walk, std::int64_t block) const;
  // The block of operand i in its compute type, at linear position `start`.
  const void* stage(const Walk& walk, std::size_t i, std::int64_t start, std::int64_t count) const;
  void gather(const Operand& operand, const std::byte* source, std::int64_t start,
              std::int64_t count, std::byte* target) const;

  ThreadPool* pool_;
  PointwiseProgram program_;
  std::vector<Operand> inputs_;
  std::vector<Operand> outputs_;
  Dims dims_;  // collapsed
  std::int64_t total_ = 0;
  bool by_rows_ = false;       // blocks do not cross rows of the last dimension
  std::int64_t block_ = 1024;  // elements
  std::int64_t blocks_in_row_ = 1;
  std::int64_t blocks_ = 0;
  std::int64_t grain_ = 1;
  int constant_slot_ = 0;   // first of the blocks that hold constants
  int temporary_slot_ = 0;  // first of those between loops
  std::size_t slots_ = 0;
  std::size_t slot_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
};

Result<std::unique_ptr<Kernel>> PointwiseKernel::create(const KernelSpec& spec,
                                                        CpuContext& context) {
  std::unique_ptr<PointwiseKernel> kernel(new PointwiseKernel(context.pool));
  TUTTI_ASSIGN_OR_RETURN(kernel->program_, compile_pointwise(spec.node, spec.constants));
  const Dims& shape = spec.outputs[0].dims;
  std::vector<Dims> strides;
  for (const TensorDesc& desc : spec.inputs) {
    TUTTI_ASSIGN_OR_RETURN(Dims operand, broadcast_strides(desc.dims, shape));
    strides.push_back(std::move(operand));
    Operand input;
    input.dtype = desc.dtype;
    input.size = dtype_size(desc.dtype);
    input.is_converted = compute_dtype(desc.dtype) != desc.dtype;
    kernel->inputs_.push_back(std::move(input));
  }
  for (const TensorDesc& desc : spec.outputs) {
    if (desc.dims != shape) {
      return invalid_argument("outputs have shapes ", shape, " and ", desc.dims);
    }
    Operand output;
    output.dtype = desc.dtype;
    output.size = dtype_size(desc.dtype);
    output.is_converted = compute_dtype(desc.dtype) != desc.dtype;
    kernel->outputs_.push_back(std::move(output));
  }
  kernel->total_ = element_count(shape);
  // The output takes part, so that dimensions merge in its order.
  strides.push_back(contiguous_strides(shape));
  kernel->dims_ = collapse(shape, &strides);
  if (kernel->dims_.size() > kMaxRank) {
    return unimplemented("broadcasting over ", kernel->dims_.size(), " separate dimensions");
  }
  const Dims dense = strides.back();
  for (std::size_t i = 0; i < kernel->inputs_.size(); ++i) {
    Operand& input = kernel->inputs_[i];
    const bool is_scalar =
        std::all_of(strides[i].begin(), strides[i].end(), [](std::int64_t s) { return s == 0; });
    input.access = is_scalar             ? Access::kScalar
                   : strides[i] == dense ? Access::kDense
                                         : Access::kStrided;
    input.strides = std::move(strides[i]);
  }
  kernel->place_operands();
  kernel->choose_blocks();
  return std::unique_ptr<Kernel>(std::move(kernel));
}

// Gives each operand that cannot be used where it lies a block of scratch memory.
void PointwiseKernel::place_operands() {
  int slots = 0;
  for (Operand& input : inputs_) {
    if (input.access == Access::kDense && !input.is_converted) continue;
    input.slot = slots++;
    if (input.is_converted && input.access == Access::kStrided) input.raw_slot = slots++;
  }
  for (Operand& output : outputs_) {
    if (output.is_converted) output.slot = slots++;
  }
  constant_slot_ = slots;
  slots += static_cast<int>(program_.constants.size());
  temporary_slot_ = slots;
  slots += program_.temporaries;
  slots_ = static_cast<std::size_t>(slots);
}

void PointwiseKernel::choose_blocks() {
  const std::size_t element = program_.element_size;
  block_ = 1024;
  while (block_ > 256 && slots_ * static_cast<std::size_t>(block_) * element > kScratchTarget) {
    block_ /= 2;
  }
  slot_bytes_ = static_cast<std::size_t>(block_) * element;
  scratch_bytes_ = std::max<std::size_t>(slots_ * slot_bytes_, 64);
  const std::int64_t row = dims_.back();
  by_rows_ = row >= kRowMinimum || dims_.size() == 1;
  std::int64_t length = block_;
  if (by_rows_ && row > 0) {
    blocks_in_row_ = (row + block_ - 1) / block_;
    blocks_ = total_ / row * blocks_in_row_;
    length = std::min(block_, row);
  } else {
    blocks_ = (total_ + block_ - 1) / block_;
  }
  grain_ = std::max<std::int64_t>(1, kPieceCost / (length * program_.cost));
}

void PointwiseKernel::fill_scalars(const Walk& walk) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Operand& input = inputs_[i];
    if (input.access != Access::kScalar) continue;
    const auto* source = static_cast<const std::byte*>(walk.args->inputs[i]);
    std::byte* target = slot(walk, input.slot);
    if (!input.is_converted) {
      copy_strided(source, 0, target, block_, input.size);
      continue;
    }
    float value = 0;
    if (input.dtype == DType::kFloat16) {
      convert_to_float(reinterpret_cast<const Half*>(source), &value, 1);
    } else {
      convert_to_float(reinterpret_cast<const BFloat16*>(source), &value, 1);
    }
    std::fill_n(reinterpret_cast<float*>(target), block_, value);
  }
  for (std::size_t i = 0; i < program_.constants.size(); ++i) {
    const Tensor& constant = program_.constants[i];
    copy_strided(constant.data(), 0, slot(walk, constant_slot_ + static_cast<int>(i)), block_,
                 dtype_size(constant.dtype()));
  }
}

// Elements [start, start + count) of the output's order, from a broadcast operand.
void PointwiseKernel::gather(const Operand& operand, const std::byte* source, std::int64_t start,
                             std::int64_t count, std::byte* target) const {
  std::int64_t at[kMaxRank] = {};
  unravel(start, dims_, at);
  const std::size_t last = dims_.size() - 1;
  std::int64_t offset = 0;
  for (std::size_t d = 0; d <= last; ++d) offset += at[d] * operand.strides[d];
  const auto size = static_cast<std::int64_t>(operand.size);
  const std::int64_t row = dims_[last];
  for (;;) {
    // Short rows go together, as far as the next dimension and the block reach.
    std::int64_t rows = 1;
    std::int64_t run = std::min(count, row - at[last]);
    if (row <= kShortRow && at[last] == 0 && last > 0 && count >= row) {
      rows = std::min(count / row, dims_[last - 1] - at[last - 1]);
      run = rows * row;
      copy_rows(source + offset * size, operand.strides[last - 1], operand.strides[last], target,
                rows, row, operand.size);
    } else {
      copy_strided(source + offset * size, operand.strides[last], target, run, operand.size);
    }
    count -= run;
    if (count == 0) return;
    target += run * size;
    offset -= at[last] * operand.strides[last];
    at[last] = 0;
    if (rows > 1) {  // the last of them is where the carry starts
      at[last - 1] += rows - 1;
      offset += (rows - 1) * operand.strides[last - 1];
    }
    for (std::size_t d = last; d-- > 0;) {
      offset += operand.strides[d];
      if (++at[d] < dims_[d]) break;
      offset -= dims_[d] * operand.strides[d];
      at[d] = 0;
    }
  }
}

const void* PointwiseKernel::stage(const Walk& walk, std::size_t i, std::int64_t start,
                                   std::int64_t count) const {
  const Operand& input = inputs_[i];
  const auto* source = static_cast<const std::byte*>(walk.args->inputs[i]);
  if (input.access == Access::kScalar) return slot(walk, input.slot);
  const std::byte* raw = source + start * static_cast<std::int64_t>(input.size);
  if (input.access == Access::kStrided) {
    if (by_rows_ && input.strides.back() == 1) {
      // A stretch of one row lies dense in the operand.
      std::int64_t at[kMaxRank] = {};
      unravel(start, dims_, at);
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < dims_.size(); ++d) offset += at[d] * input.strides[d];
      raw = source + offset * static_cast<std::int64_t>(input.size);
    } else {
      std::byte* target = slot(walk, input.is_converted ? input.raw_slot : input.slot);
      gather(input, source, start, count, target);
      raw = target;
    }
  }
  if (!input.is_converted) return raw;
  auto* target = reinterpret_cast<float*>(slot(walk, input.slot));
  if (input.dtype == DType::kFloat16) {
    convert_to_float(reinterpret_cast<const Half*>(raw), target, count);
  } else {
    convert_to_float(reinterpret_cast<const BFloat16*>(raw), target, count);
  }
  return target;
}

void PointwiseKernel::run_block(const Walk& walk, std::int64_t block) const {
  std::int64_t start = block * block_;
  std::int64_t count = std::min(block_, total_ - start);
  if (by_rows_) {
    const std::int64_t in_row = block % blocks_in_row_ * block_;
    start = block / blocks_in_row_ * dims_.back() + in_row;
    count = std::min(block_, dims_.back() - in_row);
  }
  constexpr std::size_t kFew = 24;
  const void* few[kFew];
  const bool stages_ahead = inputs_.size() <= kFew;
  if (stages_ahead) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) few[i] = stage(walk, i, start, count);
  }
  const auto output = [&](int index) -> std::byte* {
    const auto i = static_cast<std::size_t>(index);
    if (outputs_[i].slot >= 0) return slot(walk, outputs_[i].slot);
    return static_cast<std::byte*>(walk.args->outputs[i]) +
           start * static_cast<std::int64_t>(outputs_[i].size);
  };
  LoopArgs loop;
  loop.count = count;
  for (const PointwiseStep& step : program_.steps) {
    for (int i = 0; i < 3; ++i) {
      switch (step.in[i].kind) {
        case BlockRef::Kind::kNone: break;
        case BlockRef::Kind::kInput: {
          const auto index = static_cast<std::size_t>(step.in[i].index);
          loop.in[i] = stages_ahead ? few[index] : stage(walk, index, start, count);
          break;
        }
        case BlockRef::Kind::kConstant:
          loop.in[i] = slot(walk, constant_slot_ + step.in[i].index);
          break;
        case BlockRef::Kind::kTemporary:
          loop.in[i] = slot(walk, temporary_slot_ + step.in[i].index);
          break;
        case BlockRef::Kind::kOutput: loop.in[i] = output(step.in[i].index); break;
      }
    }
    loop.out = step.out.kind == BlockRef::Kind::kOutput
                   ? output(step.out.index)
                   : slot(walk, temporary_slot_ + step.out.index);
    loop.parameters[0] = step.op.parameters[0];
    loop.parameters[1] = step.op.parameters[1];
    step.op.loop(loop);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].slot < 0) continue;
    const auto* values = reinterpret_cast<const float*>(slot(walk, outputs_[i].slot));
    if (outputs_[i].dtype == DType::kFloat16) {
      convert_from_float(values, static_cast<Half*>(walk.args->outputs[i]) + start, count);
    } else {
      convert_from_float(values, static_cast<BFloat16*>(walk.args->outputs[i]) + start, count);
    }
  }
}

}  // namespace

void register_pointwise_kernels(KernelRegistry* registry) {
  for (const char* type : {"Abs",
                           "Acos",
                           "Acosh",
                           "Add",
                           "And",
                           "Asin",
                           "Asinh",
                           "Atan",
                           "Atanh",
                           "BitShift",
                           "BitwiseAnd",
                           "BitwiseNot",
                           "BitwiseOr",
                           "BitwiseXor",
                           "Cast",
                           "Ceil",
                           "Celu",
                           "Clip",
                           "Cos",
                           "Cosh",
                           "Div",
                           "Elu",
                           "Equal",
                           "Erf",
                           "Exp",
                           "Floor",
                           "FloorMod",
                           "Fmod",
                           "Gelu",
                           "Greater",
                           "GreaterOrEqual",
                           "HardSigmoid",
                           "HardSwish",
                           "IsInf",
                           "IsNaN",
                           "LeakyRelu",
                           "Less",
                           "LessOrEqual",
                           "Log",
                           "Max",
                           "Min",
                           "Mish",
                           "Mul",
                           "Neg",
                           "Not",
                           "Or",
                           "PRelu",
                           "Pointwise",
                           "Pow",
                           "Reciprocal",
                           "Relu",
                           "Round",
                           "Selu",
                           "Sigmoid",
                           "Sign",
                           "Silu",
                           "Sin",
                           "Sinh",
                           "Softplus",
                           "Softsign",
                           "Sqrt",
                           "Sub",
                           "Tan",
                           "Tanh",
                           "ThresholdedRelu",
                           "Where",
                           "Xor"}) {
    registry->add(type, PointwiseKernel::create);
  }
}

}  // namespace tutti::cpu
