// Runs a plan in this process: example_embed PLAN [SYMBOL=SIZE...]
//
// Every input is filled with 0, 1, 2, ..; every output is printed. Devices are those of the CPU
// backend, one a rank.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "backends/cpu/backend.h"
#include "base/dispatch.h"
#include "ops/lowering.h"
#include "plan/plan.h"
#include "runtime/instance.h"

namespace {

using tutti::Result;
using tutti::Status;
using tutti::Tensor;
using Sizes = std::map<std::string, std::int64_t>;

// The sizes of an input: those that the plan leaves open are symbols, which the caller names.
Result<tutti::Dims> shape_of(const tutti::PlanTensor& input, const Sizes& sizes) {
  tutti::Dims dims;
  for (const tutti::Dim& dim : input.shape) {
    if (dim.is_constant()) {
      dims.push_back(dim.constant());
      continue;
    }
    const auto symbol = dim.as_symbol();
    const auto size = symbol ? sizes.find(*symbol) : sizes.end();
    if (size == sizes.end()) {
      return tutti::invalid_argument("input '", input.name, "' has shape ", input.shape,
                                     ": give SYMBOL=SIZE for ", dim);
    }
    dims.push_back(size->second);
  }
  return dims;
}

// Numbers, whatever the type.
Result<Tensor> counting_tensor(const tutti::PlanTensor& input, const Sizes& sizes) {
  TUTTI_ASSIGN_OR_RETURN(tutti::Dims dims, shape_of(input, sizes));
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(input.dtype, std::move(dims)));
  TUTTI_RETURN_IF_ERROR(tutti::dispatch_dtype(input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
      tensor.mutable_data_as<T>()[i] = static_cast<T>(static_cast<float>(i));
    }
    return Status();
  }));
  return tensor;
}

void print(const std::string& name, const Tensor& tensor) {
  std::cout << name << " " << tutti::dtype_name(tensor.dtype()) << tutti::str_cat(tensor.dims())
            << ":";
  for (const double value : tensor.to_doubles()) std::cout << ' ' << value;
  std::cout << '\n';
}

Status run(const std::string& path, const Sizes& sizes) {
  // Operators and backend outlive what is loaded with them.
  tutti::OpRegistry operators;
  tutti::LoweringRegistry lowerings;  // what reads ONNX files needs them
  tutti::register_all_ops(&operators, &lowerings);
  const auto backend = tutti::cpu::make_cpu_backend();
  TUTTI_ASSIGN_OR_RETURN(const auto instance, tutti::Instance::load(path, operators, *backend));

  tutti::TensorMap inputs;
  for (const tutti::PlanTensor& input : instance->plan().inputs) {
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, counting_tensor(input, sizes));
    inputs.emplace(input.name, std::move(tensor));
  }
  // From any thread; requests of one instance take turns.
  TUTTI_ASSIGN_OR_RETURN(const tutti::TensorMap outputs, instance->infer(inputs));
  std::cout << instance->plan().mesh.num_ranks() << " rank(s)\n";
  for (const auto& [name, tensor] : outputs) print(name, tensor);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " PLAN [SYMBOL=SIZE...]\n";
    return 2;
  }
  Sizes sizes;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    if (equals == std::string::npos) {
      std::cerr << "'" << text << "' is no SYMBOL=SIZE\n";
      return 2;
    }
    sizes[text.substr(0, equals)] = std::atoll(text.c_str() + equals + 1);
  }
  const Status status = run(argv[1], sizes);
  if (status.ok()) return 0;
  std::cerr << "error: " << status.message() << '\n';
  return 1;
}
