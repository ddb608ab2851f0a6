#include "cli/inspect_operators.h"

#include <cstdio>

#include <nlohmann/json.hpp>

#include "backends/cpu/kernel_registry.h"
#include "cli/model_options.h"

namespace tutti::cli {

int inspect_operators(bool as_json) {
  const Operators operators;
  nlohmann::json report;
  for (const Lowering* lowering : operators.lowerings.all()) {
    report["onnx"].push_back({{"domain", lowering->domain},
                              {"type", lowering->op_type},
                              {"since_opset", lowering->since_opset},
                              {"attributes", lowering->attributes}});
  }
  for (const OpDef* op : operators.ops.all()) {
    report["core"].push_back({{"domain", op->domain},
                              {"type", op->type},
                              {"cpu", cpu::kernel_registry().find(op->type) != nullptr},
                              {"pointwise", op->is_pointwise},
                              {"exchange", op->is_exchange}});
  }
  if (as_json) {
    std::printf("%s\n", report.dump(1).c_str());
    return 0;
  }
  std::printf("ONNX operators that are read:\n");
  for (const auto& op : report["onnx"]) {
    const std::string name = op["type"].get<std::string>();
    std::printf("  %s (since opset %d)\n", name.c_str(), op["since_opset"].get<int>());
  }
  std::printf("core operators:\n");
  for (const auto& op : report["core"]) {
    std::printf("  %s\n", op["type"].get<std::string>().c_str());
  }
  return 0;
}

}  // namespace tutti::cli
