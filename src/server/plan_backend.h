// backend "tutti", platform "tutti_plan": compiled plans on the run time's rank groups.
#pragma once

#include <memory>
#include <string>

#include "graph/op_def.h"
#include "runtime/instance.h"
#include "server/model_backend.h"

namespace tutti::server {

class PlanBackend final : public ModelBackend {
 public:
  // All outlive all models. `gpu` may be null; where it is not, it runs what is not placed on the
  // CPU. `options` is for every instance.
  PlanBackend(const OpRegistry& registry, Backend& cpu, Backend* gpu = nullptr,
              InstanceOptions options = {})
      : registry_(registry), cpu_(cpu), gpu_(gpu), options_(std::move(options)) {}

  BackendName name() const override { return {"tutti", "tutti_plan"}; }
  DeviceFacts devices() const override;
  Result<std::unique_ptr<ModelSource>> open(const std::string& path) override;

 private:
  const OpRegistry& registry_;
  Backend& cpu_;
  Backend* gpu_;
  const InstanceOptions options_;
};

// One instance of a plan as the scheduler sees it.
class PlanModel final : public ServableModel {
 public:
  explicit PlanModel(std::unique_ptr<Instance> instance) : instance_(std::move(instance)) {}

  Result<InferResult> infer(const InferRequest& request,
                            const std::shared_ptr<OutputSink>& sink) override;
  int concurrency() const override { return instance_->group().concurrency(); }
  bool is_ready() const override { return instance_->is_ready(); }
  InstanceStatistics statistics() const override;

 private:
  const std::unique_ptr<Instance> instance_;
};

// What a configuration may say of this plan.
ModelFacts plan_facts(const Plan& plan);

}  // namespace tutti::server
