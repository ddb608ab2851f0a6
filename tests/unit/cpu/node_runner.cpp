#include "node_runner.h"

#include <cmath>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "base/dispatch.h"
#include "ops/families.h"

namespace tutti::cpu {
namespace {

const OpRegistry& families() {
  static const OpRegistry registry = [] {
    OpRegistry ops;
    LoweringRegistry lowerings;
    register_product_ops(&ops, &lowerings);
    register_conv_ops(&ops, &lowerings);
    register_norm_ops(&ops, &lowerings);
    register_attention_ops(&ops, &lowerings);
    return ops;
  }();
  return registry;
}

const KernelRegistry& kernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry all;
    register_product_kernels(&all);
    register_conv_kernels(&all);
    register_norm_kernels(&all);
    register_attention_kernels(&all);
    return all;
  }();
  return registry;
}

}  // namespace

Result<NodeResult> run_node(const NodeRun& run) {
  Graph graph;
  GraphBuilder builder(&graph, &families());
  std::vector<Value*> values;
  std::vector<TensorDesc> inputs;
  std::vector<const Tensor*> constants;
  std::vector<const void*> pointers;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const Tensor& tensor = run.inputs[i];
    values.push_back(tensor.defined()
                         ? graph.add_input("", {tensor.dtype(), to_shape(tensor.dims())})
                         : nullptr);
    inputs.push_back(tensor.desc());
    constants.push_back(run.constants.contains(i) ? &tensor : nullptr);
    pointers.push_back(tensor.defined() ? tensor.data() : nullptr);
  }
  const Value* value = builder.op(run.type, values, run.attributes);
  TUTTI_RETURN_IF_ERROR(builder.status());
  const Node& node = *value->producer();

  NodeResult result;
  std::vector<TensorDesc> outputs;
  std::vector<void*> targets;
  for (const Value* output : node.outputs()) {
    TUTTI_ASSIGN_OR_RETURN(const Dims dims, evaluate(output->shape(), {}));
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(output->dtype(), dims));
    std::memset(tensor.mutable_data(), 0xff, tensor.byte_size());
    outputs.push_back(tensor.desc());
    targets.push_back(tensor.mutable_data());
    result.outputs.push_back(std::move(tensor));
  }
  ThreadPool pool(run.threads);
  CpuContext context;
  context.pool = &pool;
  const SymbolMap symbols;
  const KernelFactory factory = kernels().find(run.type);
  if (factory == nullptr) return not_found("no kernel for ", run.type);
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                         factory(KernelSpec{node, inputs, outputs, constants, symbols}, context));
  result.workspace_bytes = kernel->workspace_bytes();
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    result.consumed.push_back(kernel->consumes_constant(i));
    // What a kernel has repacked it must not read again.
    if (result.consumed.back()) pointers[i] = nullptr;
  }
  TUTTI_ASSIGN_OR_RETURN(
      Tensor workspace,
      Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(result.workspace_bytes)}));
  for (int i = 0; i < 2; ++i) {
    std::memset(workspace.mutable_data(), 0xff, workspace.byte_size());
    TUTTI_RETURN_IF_ERROR(kernel->run(KernelArgs{pointers, targets, workspace.mutable_data()}));
  }
  return result;
}

Tensor random_tensor(Dims dims, unsigned seed, double spread) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, std::move(dims));
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, static_cast<float>(spread));
  for (std::int64_t i = 0; i < tensor.element_count(); ++i)
    tensor.mutable_data_as<float>()[i] = normal(generator);
  return tensor;
}

Tensor converted(const Tensor& tensor, DType dtype) {
  Tensor out = *Tensor::allocate(dtype, tensor.dims());
  const std::vector<double> values = tensor.to_doubles();
  const Status status = dispatch_dtype(dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < values.size(); ++i) {
      out.mutable_data_as<T>()[i] = static_cast<T>(static_cast<ComputeType<T>>(values[i]));
    }
    return {};
  });
  return status.ok() ? out : Tensor();
}

double difference(const Tensor& a, const std::vector<double>& b) {
  const std::vector<double> values = a.to_doubles();
  if (values.size() != b.size()) return HUGE_VAL;
  double most = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isnan(values[i]) != std::isnan(b[i])) return HUGE_VAL;
    if (values[i] == b[i] || std::isnan(b[i])) continue;
    most = std::max(most, std::abs(values[i] - b[i]) / (1 + std::abs(b[i])));
  }
  return most;
}

}  // namespace tutti::cpu
