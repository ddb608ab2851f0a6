#include "core_runner.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/kernels.h"
#include "base/dispatch.h"
#include "ops/families.h"

namespace tutti::cpu {
namespace {

const KernelRegistry& core_kernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry all;
    register_pointwise_kernels(&all);
    register_movement_kernels(&all);
    register_reduce_kernels(&all);
    return all;
  }();
  return registry;
}

Result<Tensor> garbage(DType dtype, Dims dims) {
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(dtype, std::move(dims)));
  if (tensor.byte_size() > 0) std::memset(tensor.mutable_data(), 0xff, tensor.byte_size());
  return tensor;
}

}  // namespace

const OpRegistry& core_ops() {
  static const OpRegistry registry = [] {
    OpRegistry ops;
    LoweringRegistry lowerings;
    register_pointwise_ops(&ops, &lowerings);
    register_movement_ops(&ops, &lowerings);
    register_reduce_ops(&ops, &lowerings);
    return ops;
  }();
  return registry;
}

Result<std::vector<Tensor>> run_core(const CoreRun& run) {
  Graph graph;
  std::vector<Value*> values;
  std::vector<TensorDesc> descs;
  std::vector<const Tensor*> constants;
  std::vector<const void*> sources;
  for (const Tensor& input : run.inputs) {
    values.push_back(graph.add_input("", {input.dtype(), to_shape(input.dims())}));
    descs.push_back(input.desc());
    constants.push_back(run.constant_inputs ? &input : nullptr);
    sources.push_back(input.data());
  }
  const OpDef* def = core_ops().find(run.type);
  if (def == nullptr) return not_found("there is no operator ", run.type);
  // Not through the builder, which would fold what is known without a kernel.
  TUTTI_RETURN_IF_ERROR(check_attributes(*def, run.attributes));
  const auto count = static_cast<std::size_t>(run.num_outputs);
  const Node* node =
      graph.add_node(*def, "", values, run.attributes, std::vector<TensorType>(count));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<TensorType> types, def->infer(*node, run.num_outputs));
  for (std::size_t i = 0; i < count; ++i) node->output(i)->set_type(types[i]);
  std::vector<Tensor> outputs;
  std::vector<TensorDesc> output_descs;
  std::vector<void*> targets;
  for (const Value* result : node->outputs()) {
    TUTTI_ASSIGN_OR_RETURN(Dims dims, evaluate(result->shape(), {}));
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, garbage(result->dtype(), std::move(dims)));
    output_descs.push_back(tensor.desc());
    targets.push_back(tensor.mutable_data());
    outputs.push_back(std::move(tensor));
  }
  ThreadPool pool(run.threads);
  CpuContext context;
  context.pool = &pool;
  const KernelFactory factory = core_kernels().find(run.type);
  if (factory == nullptr) return not_found("there is no kernel for ", run.type);
  const SymbolMap symbols;
  const KernelSpec spec{*node, descs, output_descs, constants, symbols};
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, factory(spec, context));
  TUTTI_ASSIGN_OR_RETURN(
      Tensor workspace,
      garbage(DType::kUInt8, {static_cast<std::int64_t>(kernel->workspace_bytes())}));
  KernelArgs args;
  args.inputs = sources;
  args.outputs = targets;
  args.workspace = workspace.mutable_data();
  for (int i = 0; i < 2; ++i) TUTTI_RETURN_IF_ERROR(kernel->run(args));
  return outputs;
}

std::vector<double> elements_of(const CoreRun& run) {
  const Result<std::vector<Tensor>> outputs = run_core(run);
  EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
  if (!outputs.ok()) return {};
  return (*outputs)[0].to_doubles();
}

Tensor floats(Dims dims, std::initializer_list<float> values) {
  return Tensor::of(std::move(dims), std::span<const float>(values.begin(), values.size()));
}

Tensor ints(Dims dims, std::initializer_list<std::int64_t> values) {
  return Tensor::of(std::move(dims), std::span<const std::int64_t>(values.begin(), values.size()));
}

Tensor bools(Dims dims, std::initializer_list<bool> values) {
  return Tensor::of(std::move(dims), std::span<const bool>(values.begin(), values.size()));
}

Tensor counting(Dims dims) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.mutable_data_as<float>()[i] = static_cast<float>(i);
  }
  return tensor;
}

Tensor as_type(const Tensor& tensor, DType dtype) {
  Tensor out = *Tensor::allocate(dtype, tensor.dims());
  const std::vector<double> values = tensor.to_doubles();
  const Status status = dispatch_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < values.size(); ++i) {
      out.mutable_data_as<T>()[i] = static_cast<T>(static_cast<ComputeType<T>>(values[i]));
    }
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

}  // namespace tutti::cpu
