// A loaded plan that answers requests with named tensors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/rank_group.h"

namespace tutti {

using TensorMap = std::map<std::string, Tensor, std::less<>>;

struct InstanceOptions {
  RankGroupOptions group;  // its devices are given apart
  PlanReadOptions read;    // when loading from a file
  // Makes kernels while loading where all sizes are known or have a best value, so that what a
  // backend cannot do fails the load and not the first request.
  bool prepares = true;
};

struct MemoryReport {
  std::int64_t weight_bytes = 0;  // the plan's data file, mapped once for all ranks of the host
  std::vector<RankMemory> ranks;
};

// Thread-safe; one request runs at a time.
class Instance {
 public:
  // `devices`: one a rank; empty: the backend's first ones. Registry and backend outlive the
  // instance; the backend also every rank that stalls. Errors: those of read_plan; devices that are
  // not as many as the mesh has ranks; nodes that the backend has no kernel for.
  static Result<std::unique_ptr<Instance>> load(const std::string& path, const OpRegistry& registry,
                                                Backend& backend, std::vector<int> devices = {},
                                                InstanceOptions options = {});
  static Result<std::unique_ptr<Instance>> load(Plan plan, Backend& backend,
                                                std::vector<int> devices = {},
                                                InstanceOptions options = {});

  // Several instances may share a plan.
  static Result<std::unique_ptr<Instance>> load(std::shared_ptr<const Plan> plan, Backend& backend,
                                                std::vector<int> devices = {},
                                                InstanceOptions options = {});

  // One tensor for each input of the plan; all outputs of the plan. INVALID_ARGUMENT names an input
  // that is missing, unknown, or of another element type or shape; other errors, and what must stay
  // alive how long, are RankGroup::run's. RunOptions::allocate_output gets indexes into
  // plan().outputs.
  Result<TensorMap> infer(const TensorMap& inputs, const RunOptions& options = {});

  const Plan& plan() const { return *plan_; }
  RankGroup& group() { return *group_; }
  bool is_ready() const { return group_->is_ready(); }
  PrologueStats prologue_stats() const { return group_->prologue_stats(); }
  MemoryReport memory() const { return {plan_->data_bytes, group_->memory()}; }

 private:
  Instance(std::shared_ptr<const Plan> plan, std::unique_ptr<RankGroup> group)
      : plan_(std::move(plan)), group_(std::move(group)) {}

  const std::shared_ptr<const Plan> plan_;
  const std::unique_ptr<RankGroup> group_;
};

}  // namespace tutti
