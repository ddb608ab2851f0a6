#include "backends/cpu/evaluator.h"

namespace tutti::cpu {
namespace {

// Shape arithmetic and the like always folds.
constexpr std::int64_t kSmallGrowth = 4096;

Result<std::int64_t> total_bytes(const std::vector<TensorDesc>& tensors) {
  std::int64_t total = 0;
  for (const TensorDesc& tensor : tensors) {
    if (tensor.dtype == DType::kUndefined) continue;
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t bytes, checked_byte_size(tensor.dtype, tensor.dims));
    TUTTI_ASSIGN_OR_RETURN(total, checked_add(total, bytes));
  }
  return total;
}

}  // namespace

Status CpuEvaluator::allow_growth(const std::vector<TensorDesc>& inputs,
                                  const std::vector<TensorDesc>& outputs) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t before, total_bytes(inputs));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t after, total_bytes(outputs));
  const std::int64_t growth = after - before;
  if (growth <= kSmallGrowth) return Status();
  if (growth > growth_left_) {
    return Status(StatusCode::kResourceExhausted,
                  str_cat(after, " bytes of ", before, "; constants may grow by ", growth_left_,
                          " bytes more"));
  }
  growth_left_ -= growth;
  return Status();
}

Result<std::vector<Tensor>> CpuEvaluator::evaluate(const Node& node) {
  std::vector<TensorDesc> input_descs;
  std::vector<const Tensor*> constants;
  KernelArgs args;
  std::vector<const void*> input_data;
  for (const Value* input : node.inputs()) {
    if (input == nullptr) {
      input_descs.emplace_back();
      constants.push_back(nullptr);
      input_data.push_back(nullptr);
      continue;
    }
    if (!input->is_constant()) {
      return invalid_argument(node.describe(), ": input '", input->name(), "' is no constant");
    }
    input_descs.push_back(input->constant().desc());
    constants.push_back(&input->constant());
    input_data.push_back(input->constant().data());
  }
  const SymbolMap no_symbols;
  std::vector<TensorDesc> output_descs;
  for (const Value* output : node.outputs()) {
    TUTTI_ASSIGN_OR_RETURN(Dims dims, tutti::evaluate(output->shape(), no_symbols));
    output_descs.push_back({output->dtype(), std::move(dims)});
  }
  if (node.op().is_view) {
    const Tensor& source = *constants[0];
    if (output_descs[0].element_count() != source.element_count()) {
      return invalid_argument(node.describe(), ": ", source.element_count(),
                              " elements do not fit ", output_descs[0].dims);
    }
    return std::vector<Tensor>{source.reshaped(output_descs[0].dims)};
  }
  const KernelFactory factory = kernel_registry().find(node.type());
  if (factory == nullptr) return unimplemented(node.describe(), ": there is no CPU kernel");

  const Status allowed = allow_growth(input_descs, output_descs);
  if (!allowed.ok()) return allowed.with_context(node.describe());
  std::vector<Tensor> outputs;
  std::vector<void*> output_data;
  for (const TensorDesc& desc : output_descs) {
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(desc.dtype, desc.dims));
    output_data.push_back(tensor.mutable_data());
    outputs.push_back(std::move(tensor));
  }
  const KernelSpec spec{node, input_descs, output_descs, constants, no_symbols};
  Result<std::unique_ptr<Kernel>> kernel = factory(spec, context_);
  TUTTI_RETURN_IF_ERROR(kernel.status().with_context(node.describe()));
  Tensor workspace;
  if ((*kernel)->workspace_bytes() > 0) {
    TUTTI_ASSIGN_OR_RETURN(
        workspace,
        Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>((*kernel)->workspace_bytes())}));
    args.workspace = workspace.mutable_data();
  }
  args.inputs = input_data;
  args.outputs = output_data;
  TUTTI_RETURN_IF_ERROR((*kernel)->run(args).with_context(node.describe()));
  return outputs;
}

}  // namespace tutti::cpu
