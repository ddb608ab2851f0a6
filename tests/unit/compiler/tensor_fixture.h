// What tests of the strategy "tensor" share.
#pragma once

#include "backends/cpu/evaluator.h"
#include "compiler_fixture.h"
#include "graph/rank_constant.h"
#include "spmd_interpreter.h"
#include "toy_transformer.h"

namespace tutti {

using Kinds = std::map<std::string, int>;

class TensorTest : public CompilerTest {
 protected:
  TensorTest() {
    toy_.head_dim = 8;  // wide enough for gate and up to become products of their own
  }

  CompileOptions tensor(std::string_view mesh) {
    CompileOptions out = options(mesh);
    out.evaluator = &evaluator_;
    return out;
  }

  // Every rank's first output is that of `text` on one rank.
  void expect_one_rank_result(const CompiledModel& model, std::string_view text,
                              const NamedTensors& tensors, const SymbolMap& sizes,
                              std::string_view mesh) {
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*parse_model(text), tensors, sizes);
    const auto ranks = interpreter.run(model, tensors);
    ASSERT_TRUE(right.ok() && ranks.ok()) << mesh << ": " << ranks.status().to_string();
    for (const auto& outputs : *ranks) {
      EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5) << mesh;
    }
  }

  static Kinds kinds(const CompiledModel& model) {
    Kinds out;
    for (const ExchangeInfo& exchange : model.exchanges) {
      if (!exchange.in_prologue) ++out[exchange.kind + " " + exchange.axis];
    }
    return out;
  }

  // Elements of the matrices that products of the main graph read on `rank`.
  static std::int64_t weight_elements(const CompiledModel& model, int rank) {
    SymbolMap symbols;
    model.mesh.bind(rank, &symbols);
    std::int64_t sum = 0;
    for (const auto& node : model.main->nodes()) {
      if (node->type() != "Linear" || sliced_constant(*node->input(1)) == nullptr) continue;
      sum += *product(node->input(1)->shape()).evaluate(symbols);
    }
    return sum;
  }

  ToyTransformer toy_;
  cpu::CpuEvaluator evaluator_;
};

}  // namespace tutti
