#include "cli/make_plan.h"

#include "base/hash.h"
#include "base/mapped_file.h"

namespace tutti::cli {
namespace {

std::vector<PlanTensor> plan_tensors(const std::vector<GlobalTensor>& tensors) {
  std::vector<PlanTensor> out;
  for (const GlobalTensor& tensor : tensors) {
    out.push_back({tensor.name, tensor.type.dtype, tensor.type.shape});
  }
  return out;
}

}  // namespace

Result<Plan> make_plan(CompiledModel compiled, const ModelOptions& options) {
  Plan plan;
  plan.mesh = compiled.mesh;
  plan.main = std::move(compiled.main);
  plan.prologue = std::move(compiled.prologue);
  plan.inputs = plan_tensors(compiled.inputs);
  plan.outputs = plan_tensors(compiled.outputs);
  plan.invariant_inputs = std::move(compiled.invariant_inputs);
  plan.layouts = std::move(compiled.layouts);
  plan.strategy = options.strategy;
  for (const ExchangeInfo& exchange : compiled.exchanges) {
    plan.exchanges.push_back(
        {exchange.kind, exchange.axis, exchange.node, exchange.sent_bytes, exchange.in_prologue});
  }
  TUTTI_ASSIGN_OR_RETURN(const auto source, MappedFile::open(options.model));
  plan.source_hash = hash_bytes(source->bytes()).to_hex();
  TUTTI_RETURN_IF_ERROR(check_plan(plan));
  return plan;
}

}  // namespace tutti::cli
