// Speed of the CPU kernels that a small diffusion transformer spends its time in.
// Usage: cpu_kernels [threads]. Prints one line a case: milliseconds (best of many), CPU
// milliseconds of all threads together (what counts where other work shares the cores), GFLOP/s by
// each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/kernels.h"
#include "base/half.h"
#include "graph/builder.h"
#include "ops/families.h"

namespace tutti::cpu {
namespace {

struct Case {
  std::string name;
  std::string type;
  std::vector<Dims> inputs;
  std::vector<std::size_t> constants;
  AttributeMap attributes;
  DType dtype = DType::kFloat32;
};

Tensor random_tensor(DType dtype, const Dims& dims, unsigned seed) {
  Tensor tensor = *Tensor::allocate(dtype, dims);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    const float x = normal(generator);
    if (dtype == DType::kFloat32) tensor.mutable_data_as<float>()[i] = x;
    if (dtype == DType::kBFloat16) tensor.mutable_data_as<BFloat16>()[i] = BFloat16(x);
    if (dtype == DType::kFloat16) tensor.mutable_data_as<Half>()[i] = Half(x);
  }
  return tensor;
}

Status run_case(const Case& c, const OpRegistry& ops, const KernelRegistry& kernels,
                CpuContext& context) {
  Graph graph;
  GraphBuilder builder(&graph, &ops);
  std::vector<Value*> values;
  std::vector<Tensor> tensors;
  for (const Dims& dims : c.inputs) {
    tensors.push_back(random_tensor(c.dtype, dims, static_cast<unsigned>(tensors.size())));
    values.push_back(graph.add_input("", {c.dtype, to_shape(dims)}));
  }
  const Value* value = builder.op(c.type, values, c.attributes);
  TUTTI_RETURN_IF_ERROR(builder.status());
  const Node& node = *value->producer();
  std::vector<TensorDesc> inputs;
  std::vector<const Tensor*> constants(tensors.size(), nullptr);
  std::vector<const void*> pointers;
  for (const Tensor& tensor : tensors) {
    inputs.push_back(tensor.desc());
    pointers.push_back(tensor.data());
  }
  for (const std::size_t i : c.constants) constants[i] = &tensors[i];
  TUTTI_ASSIGN_OR_RETURN(const Dims dims, evaluate(value->shape(), {}));
  TUTTI_ASSIGN_OR_RETURN(Tensor output, Tensor::allocate(c.dtype, dims));
  const std::vector<TensorDesc> outputs{output.desc()};
  const SymbolMap symbols;
  TUTTI_ASSIGN_OR_RETURN(
      const std::unique_ptr<Kernel> kernel,
      kernels.find(c.type)(KernelSpec{node, inputs, outputs, constants, symbols}, context));
  TUTTI_ASSIGN_OR_RETURN(
      Tensor workspace,
      Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(kernel->workspace_bytes())}));
  const std::vector<void*> targets{output.mutable_data()};
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  double best_cpu = 1e30;
  const auto start = Clock::now();
  for (int i = 0; i < 3 || (i < 200 && Clock::now() - start < std::chrono::milliseconds(1500));
       ++i) {
    const auto before = Clock::now();
    const std::clock_t cpu_before = std::clock();
    TUTTI_RETURN_IF_ERROR(kernel->run(KernelArgs{pointers, targets, workspace.mutable_data()}));
    best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
    best_cpu = std::min(best_cpu, static_cast<double>(std::clock() - cpu_before) / CLOCKS_PER_SEC);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t flops, node.op().flops(node).evaluate({}));
  const double work = static_cast<double>(flops) * 1e-9;
  std::printf("%-44s %9.3f ms %7.1f GFLOP/s   cpu %9.3f ms %7.1f GFLOP/s   workspace %.1f MB\n",
              c.name.c_str(), best * 1e3, work / best, best_cpu * 1e3,
              work / std::max(best_cpu, 1e-9),
              static_cast<double>(kernel->workspace_bytes()) / 1e6);
  return {};
}

Case attention(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, std::int64_t d,
               DType dtype) {
  return {str_cat("Attention ", tokens, " tokens ", heads, "/", kv_heads, " heads d=", d, " ",
                  dtype_name(dtype)),
          "Attention",
          {{1, tokens, heads, d}, {1, tokens, kv_heads, d}, {1, tokens, kv_heads, d}},
          {},
          {{"scale", 0.125}, {"layout", std::string("bshd")}},
          dtype};
}

Case linear(std::int64_t m, std::int64_t k, std::int64_t n, std::string activation, DType dtype) {
  return {str_cat("Linear ", m, "x", k, "x", n, " ", activation, " ", dtype_name(dtype)),
          "Linear",
          {{m, k}, {k, n}, {n}},
          {1, 2},
          {{"activation", activation}},
          dtype};
}

int run(int threads) {
  OpRegistry ops;
  LoweringRegistry lowerings;
  register_product_ops(&ops, &lowerings);
  register_conv_ops(&ops, &lowerings);
  register_norm_ops(&ops, &lowerings);
  register_attention_ops(&ops, &lowerings);
  KernelRegistry kernels;
  register_product_kernels(&kernels);
  register_conv_kernels(&kernels);
  register_norm_kernels(&kernels);
  register_attention_kernels(&kernels);
  ThreadPool pool(threads);
  CpuContext context;
  context.pool = &pool;
  const auto f32 = DType::kFloat32;
  const auto axis = [](std::int64_t a) { return AttributeMap{{"axis", a}, {"epsilon", 1e-6}}; };
  const std::vector<Case> cases = {
      linear(1792, 256, 1024, "", f32),
      linear(1792, 256, 1024, "gelu_tanh", f32),
      linear(1792, 1024, 256, "", f32),
      linear(1792, 256, 256, "", f32),
      linear(2, 256, 1536, "silu", f32),
      linear(1792, 256, 1024, "", DType::kBFloat16),
      linear(1792, 256, 1024, "", DType::kFloat16),
      {"MatMul 1024x1024x1024", "MatMul", {{1024, 1024}, {1024, 1024}}, {}, {}, f32},
      attention(1792, 8, 4, 32, f32),
      attention(1792, 8, 4, 64, f32),
      attention(1792, 8, 4, 64, DType::kBFloat16),
      attention(1792, 8, 4, 64, DType::kFloat16),
      attention(16384, 2, 1, 64, f32),
      {"Attention 1792 queries 24 keys 8/4 heads d=32",
       "Attention",
       {{1, 1792, 8, 32}, {1, 24, 4, 32}, {1, 24, 4, 32}},
       {},
       {{"scale", 0.125}, {"layout", std::string("bshd")}},
       f32},
      {"LayerNormalization 1792x256",
       "LayerNormalization",
       {{1792, 256}, {256}, {256}},
       {},
       axis(1),
       f32},
      {"RMSNormalization 14336x32", "RMSNormalization", {{14336, 32}, {32}}, {}, axis(1), f32},
      {"Softmax 1792x1792", "Softmax", {{1792, 1792}}, {}, {{"axis", std::int64_t{1}}}, f32},
      {"GroupNorm 32 of 64x64x64",
       "GroupNorm",
       {{4, 64, 64, 64}, {64}, {64}},
       {},
       {{"groups", std::int64_t{32}}, {"epsilon", 1e-6}},
       f32},
      {"Conv 3x3 64->64 at 64x64",
       "Conv",
       {{4, 64, 64, 64}, {64, 64, 3, 3}, {64}},
       {1, 2},
       {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}},
       f32},
      {"Conv 3x3x3 32->32 at 6x64x64",
       "Conv",
       {{1, 32, 6, 64, 64}, {32, 32, 3, 3, 3}, {32}},
       {1, 2},
       {{"pads", std::vector<std::int64_t>{1, 1, 1, 1, 1, 1}}},
       f32},
      {"Conv 3x3 64->3 at 64x64",
       "Conv",
       {{4, 64, 64, 64}, {3, 64, 3, 3}, {3}},
       {1, 2},
       {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}},
       f32},
  };
  std::printf("threads: %d\n", threads);
  for (const Case& c : cases) {
    if (const Status status = run_case(c, ops, kernels, context); !status.ok()) {
      std::printf("%-44s %s\n", c.name.c_str(), status.to_string().c_str());
    }
  }
  return 0;
}

}  // namespace
}  // namespace tutti::cpu

int main(int argc, char** argv) {
  return tutti::cpu::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1);
}
