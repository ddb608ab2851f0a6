// Every core operator on CUDA against the CPU backend; without a GPU, the code of every kernel
// compiles.
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <random>
#include <set>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/row_kernel.h"
#include "base/dispatch.h"
#include "graph/printer.h"
#include "operator_cases.h"
#include "runtime/instance.h"
#include "support/core_ops.h"

namespace tutti::cuda {
namespace {

using test::core_ops;

std::string with_type(std::string text, const std::string& type) {
  for (std::size_t at = 0; (at = text.find("$T", at)) != std::string::npos;) {
    text.replace(at, 2, type);
  }
  return text;
}

Result<Tensor> random_tensor(const Value& value, const OperatorCase& test, std::mt19937* random) {
  TUTTI_ASSIGN_OR_RETURN(const Dims dims, evaluate(value.shape(), {}));
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(value.dtype(), dims));
  double low = test.low;
  double high = test.high;
  const auto range = test.ranges.find(value.name());
  if (range != test.ranges.end()) {
    low = range->second.first;
    high = range->second.second;
  }
  TUTTI_RETURN_IF_ERROR(dispatch_dtype(value.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
      T* element = tensor.mutable_data_as<T>() + i;
      if constexpr (std::is_same_v<T, bool>) {
        *element = ((*random)() & 1U) != 0;
      } else if constexpr (std::is_integral_v<T>) {
        const auto least =
            static_cast<std::int64_t>(std::is_unsigned_v<T> ? std::fmax(low, 0) : low);
        std::uniform_int_distribution<std::int64_t> numbers(least, static_cast<std::int64_t>(high));
        *element = static_cast<T>(numbers(*random));
      } else {
        std::uniform_real_distribution<double> numbers(low, high);
        *element = static_cast<T>(static_cast<ComputeType<T>>(numbers(*random)));
      }
    }
    return Status();
  }));
  return tensor;
}

// "" when `got` is close to `want`, or how it differs.
std::string difference(const Tensor& got, const Tensor& want, double tolerance) {
  if (!(got.desc() == want.desc())) return "another type or shape";
  const std::vector<double> a = got.to_doubles();
  const std::vector<double> b = want.to_doubles();
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return str_cat("NaN at ", i, ": ", a[i], " ", b[i]);
    if (std::isnan(a[i])) continue;
    if (!std::isinf(b[i])) norm += b[i] * b[i];  // of equal elements, too: the error of the whole
    if (a[i] == b[i]) continue;
    const double off = std::abs(a[i] - b[i]);
    if (!is_floating(got.dtype()) || !(off <= 20 * tolerance * (1 + std::abs(b[i])))) {
      return str_cat("element ", i, " is ", a[i], ", expected ", b[i]);
    }
    error += off * off;
  }
  const double relative = std::sqrt(error / std::fmax(norm, 1e-30));
  return relative <= tolerance || error == 0 ? "" : str_cat("relative error ", relative);
}

double tolerance_of(const std::string& type) {
  return type == "bf16" ? 2e-2 : type == "f16" ? 2e-3 : type == "f64" ? 1e-9 : 1e-4;
}

Plan plan_of(const std::string& text) {
  auto graph = parse_graph(text, core_ops());
  EXPECT_TRUE(graph.ok()) << graph.status().to_string() << "\n" << text;
  Plan plan;
  if (!graph.ok()) return plan;
  plan.main = *std::move(graph);
  for (const Value* input : plan.main->inputs()) {
    plan.inputs.push_back({input->name(), input->dtype(), input->shape()});
  }
  for (const Value* output : plan.main->outputs()) {
    plan.outputs.push_back({output->name(), output->dtype(), output->shape()});
  }
  return plan;
}

Status compile_nodes(const Graph& graph, RankContext& context) {
  for (const auto& node : graph.nodes()) {
    if (node->op().is_view) continue;
    std::vector<TensorDesc> inputs;
    std::vector<const Tensor*> constants;
    for (const Value* input : node->inputs()) {
      if (input == nullptr) {
        inputs.emplace_back();
        constants.push_back(nullptr);
        continue;
      }
      TUTTI_ASSIGN_OR_RETURN(Dims dims, evaluate(input->shape(), {}));
      inputs.push_back({input->dtype(), std::move(dims)});
      constants.push_back(input->is_constant() ? &input->constant() : nullptr);
    }
    std::vector<TensorDesc> outputs;
    for (const Value* output : node->outputs()) {
      TUTTI_ASSIGN_OR_RETURN(Dims dims, evaluate(output->shape(), {}));
      outputs.push_back({output->dtype(), std::move(dims)});
    }
    const KernelFactory factory = kernel_table().find(node->type());
    if (factory == nullptr) return unimplemented("no kernel for ", node->type());
    const SymbolMap symbols;
    TUTTI_RETURN_IF_ERROR(factory({*node, inputs, outputs, constants, symbols}, context));
  }
  return {};
}

TEST(CudaKernels, CoverEveryCoreOperator) {
  for (const OpDef* op : core_ops().all()) {
    if (op->is_view) continue;
    EXPECT_NE(kernel_table().find(op->type), nullptr) << op->type;
  }
}

TEST(CudaKernels, CompileForEveryOperatorCase) {
  auto compiler = KernelCompiler::create();
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  RankContext context;
  context.is_dry = true;
  context.compiler = compiler->get();
  for (const OperatorCase& test : operator_cases()) {
    // Types in between go through the same code.
    for (const std::string& type : std::set<std::string>{test.types.front(), test.types.back()}) {
      auto graph = parse_graph(with_type(test.text, type), core_ops());
      EXPECT_TRUE(graph.ok()) << test.name << ": " << graph.status().to_string();
      if (!graph.ok()) continue;
      const Status status = compile_nodes(**graph, context);
      EXPECT_TRUE(status.ok()) << test.name << " " << type << ": " << status.to_string();
    }
  }
  std::printf("%zu kernels compiled\n", (*compiler)->num_compiled());
}

TEST(CudaKernels, FusedRowsAreOneKernel) {
  auto compiler = KernelCompiler::create();
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  RankContext context;
  context.is_dry = true;
  context.compiler = compiler->get();
  for (const OperatorCase& test : operator_cases()) {
    auto graph = parse_graph(with_type(test.text, test.types.front()), core_ops());
    ASSERT_TRUE(graph.ok()) << test.name << ": " << graph.status().to_string();
    const Node& node = *(*graph)->nodes().front();
    if (node.type() != "Fused") continue;
    std::vector<TensorDesc> inputs;
    for (const Value* input : node.inputs()) {
      inputs.push_back({input->dtype(), *evaluate(input->shape(), {})});
    }
    const std::vector<const Tensor*> constants(inputs.size(), nullptr);
    const auto body = node.attr_graph("body");
    const Status status = make_row_kernel(context, {*body, inputs, constants, {}}).status();
    const bool is_rows = test.name != "FusedByNodes" && !test.name.starts_with("FusedProducts");
    const StatusCode expected = is_rows ? StatusCode::kOk : StatusCode::kUnimplemented;
    EXPECT_EQ(status.code(), expected) << test.name << ": " << status.to_string();
  }
}

class CudaOperators : public ::testing::TestWithParam<OperatorCase> {
 protected:
  static void SetUpTestSuite() {
    auto made = CudaBackend::create();
    if (made.ok()) cuda_ = *std::move(made);
    reason_ = made.status().message();
  }
  static void TearDownTestSuite() { cuda_.reset(); }
  void SetUp() override {
    if (cuda_ == nullptr) GTEST_SKIP() << reason_;
  }

  // Fresh numbers for each seed.
  static Result<TensorMap> random_inputs(const Graph& graph, const OperatorCase& test,
                                         unsigned seed) {
    std::mt19937 random(seed);
    TensorMap inputs;
    for (const Value* input : graph.inputs()) {
      TUTTI_ASSIGN_OR_RETURN(Tensor tensor, random_tensor(*input, test, &random));
      inputs.emplace(input->name(), std::move(tensor));
    }
    return inputs;
  }

  static inline std::unique_ptr<Backend> cuda_;
  static inline std::string reason_;
  const std::unique_ptr<Backend> cpu_ = cpu::make_cpu_backend();
};

TEST_P(CudaOperators, AgreeWithTheCpu) {
  for (const std::string& type : GetParam().types) {
    SCOPED_TRACE(type);
    const std::string text = with_type(GetParam().text, type);
    const auto expected = Instance::load(plan_of(text), *cpu_);
    const auto instance = Instance::load(plan_of(text), *cuda_);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    // Node by node, recorded, repeated.
    for (unsigned seed = 1; seed <= 3; ++seed) {
      const auto inputs = random_inputs(*(*instance)->plan().main, GetParam(), seed);
      ASSERT_TRUE(inputs.ok()) << inputs.status().to_string();
      const auto want = (*expected)->infer(*inputs);
      const auto got = (*instance)->infer(*inputs);
      ASSERT_TRUE(want.ok()) << want.status().to_string();
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      for (const auto& [name, tensor] : *want) {
        EXPECT_EQ(difference(got->at(name), tensor, tolerance_of(type)), "")
            << "run " << seed << " output " << name;
      }
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<OperatorCase>& info) {
  std::string name;
  for (const char c : info.param.name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  }
  return str_cat(name, "_", info.index);
}

// One case says that the others are skipped.
std::vector<OperatorCase> cases_of_this_machine() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) return operator_cases();
  return {operator_cases().front()};
}

INSTANTIATE_TEST_SUITE_P(Case, CudaOperators, ::testing::ValuesIn(cases_of_this_machine()),
                         test_name);

}  // namespace
}  // namespace tutti::cuda
