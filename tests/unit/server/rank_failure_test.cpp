// Ranks that fail under a whole server: who hears of it, and who must not.
#include <gmock/gmock.h>

#include <future>
#include <stdexcept>

#include "backends/cpu/backend.h"
#include "cli/model_options.h"
#include "fakes.h"
#include "graph/printer.h"
#include "server/backend_loader.h"
#include "server/plan_backend.h"
#include "server/service.h"

namespace tutti::server {
namespace {

using ::testing::HasSubstr;

// Runs `action` before the addition on rank 1, once each time it is armed.
class Fault final : public RankHooks {
 public:
  Status before_node(int rank, const Node& node) override {
    if (rank != 1 || node.type() != "Add" || !is_armed.exchange(false)) return {};
    return action();
  }
  std::function<Status()> action;
  std::atomic<bool> is_armed{false};
};

// The CPU, where making ranks can be held up.
class HeldBackend final : public Backend {
 public:
  std::string name() const override { return cpu_->name(); }
  int device_count() const override { return cpu_->device_count(); }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override {
    if (const auto held = std::atomic_load(&gate)) held->wait();
    return cpu_->create_rank(options);
  }
  std::shared_ptr<test::Gate> gate;

 private:
  const std::unique_ptr<Backend> cpu_ = cpu::make_cpu_backend();
};

// y = 2 x, half of the columns on each of two ranks.
constexpr const char* kGraph = R"(graph @main (%x: f32[b, 4]) {
  %piece = ShardSlice(%x) {axis = "cp", ranks = 2, dim = 1, units = dims[4]}
  %sum = Add(%piece, %piece)
  %y = AllGather(%sum) {axis = "cp", ranks = 2, dim = 1, units = dims[4], size = dims[4]}
  return %y
})";

class RankFailure : public ::testing::Test {
 protected:
  void SetUp() override {
    write_model("hurt", "0,1");
    write_model("well", "2,3");
    InstanceOptions options;
    options.group.hooks = fault_;
    options.group.collective_timeout = std::chrono::milliseconds(200);
    options.group.stall_grace = std::chrono::milliseconds(20);
    std::vector<std::unique_ptr<ModelBackend>> backends;
    backends.push_back(
        std::make_unique<PlanBackend>(operators_.ops, backend_, nullptr, std::move(options)));
    auto loader = std::make_shared<BackendLoader>(std::move(backends), 100, make_silent_log());
    RepositoryOptions repository;
    repository.paths = {folder_.path()};
    repository_ =
        std::make_shared<ModelRepository>(std::move(repository), loader, make_silent_log());
    const Status status = repository_->start();
    ASSERT_TRUE(status.ok()) << status.message();
    service_ = std::make_unique<InferenceService>(repository_, ServiceOptions());
  }

  void write_model(const std::string& name, const std::string& devices) {
    folder_.write(name + "/config.pbtxt",
                  "instance_group [ { kind: KIND_MODEL } ]\n"
                  "parameters { key: 'enable_multi_device' value: { string_value: 'true' } }\n"
                  "parameters { key: 'multi_device_gpus' value: { string_value: '" +
                      devices + "' } }\n");
    folder_.write(name + "/1/note", "");
    Plan plan;
    plan.mesh = *Mesh::parse("cp=2");
    auto graph = parse_graph(kGraph, operators_.ops);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    plan.main = *std::move(graph);
    plan.inputs = {{"x", DType::kFloat32, plan.main->inputs()[0]->shape()}};
    plan.outputs = {{"y", DType::kFloat32, plan.main->outputs()[0]->shape()}};
    const Status status = write_plan(plan, folder_.path() + "/" + name + "/1/model.plan");
    ASSERT_TRUE(status.ok()) << status.message();
  }

  std::future<Status> send(const std::string& model, std::stop_token cancel = {}) {
    InferRequest request;
    request.model_name = model;
    request.inputs = {{"x", DType::kFloat32, {2, 4}, std::as_bytes(std::span(x_))}};
    request.cancel = std::move(cancel);
    auto sink = std::make_shared<test::VectorSink>();
    auto promise = std::make_shared<std::promise<Status>>();
    service_->infer(std::move(request), sink, [promise, sink, this](Result<InferResponse> r) {
      if (r.ok()) {
        std::vector<float> y(x_.size());
        std::memcpy(y.data(), sink->outputs[0].data(), sink->outputs[0].size());
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], 2 * x_[i]);
      }
      promise->set_value(r.status());
    });
    return promise->get_future();
  }

  void expect_well(const std::string& model) {
    const Status status = send(model).get();
    EXPECT_TRUE(status.ok()) << model << ": " << status.message();
    EXPECT_TRUE(*service_->is_model_ready(model, ""));
  }

  // The next run of "hurt" does this on rank 1.
  void arm(std::function<Status()> action) {
    fault_->action = std::move(action);
    fault_->is_armed = true;
  }

  const std::vector<float> x_ = {1, 2, 3, 4, 5, 6, 7, 8};
  const cli::Operators operators_;
  HeldBackend backend_;
  test::TempFolder folder_;
  std::shared_ptr<Fault> fault_ = std::make_shared<Fault>();
  std::shared_ptr<ModelRepository> repository_;
  std::unique_ptr<InferenceService> service_;
};

TEST_F(RankFailure, RankThatThrowsFailsItsRequestAndTheNextOneWorks) {
  expect_well("hurt");
  arm([]() -> Status { throw std::runtime_error("boom"); });
  const Status status = send("hurt").get();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 of 2: exception: boom"));
  expect_well("well");
  EXPECT_TRUE(send("hurt").get().ok());  // waits for the ranks to be made anew
  expect_well("hurt");
  const StatisticsSnapshot now = (*service_->statistics("hurt", ""))[0].statistics;
  EXPECT_EQ(now.success.count, 3U);
  EXPECT_EQ(now.fail.count, 1U);
  EXPECT_EQ(now.execution_count, 3U);
  EXPECT_EQ((*service_->statistics("hurt", ""))[0].instances[0].rebuilds, 1);
  EXPECT_EQ((*service_->statistics("well", ""))[0].instances[0].rebuilds, 0);
}

TEST_F(RankFailure, ReadinessDropsUntilTheRanksAreBackAndOthersServe) {
  const auto gate = std::make_shared<test::Gate>();
  std::atomic_store(&backend_.gate, gate);
  arm([] { return internal_error("device lost"); });
  EXPECT_THAT(send("hurt").get().message(), HasSubstr("rank 1 of 2: device lost"));
  gate->await_arrivals(1);
  EXPECT_FALSE(*service_->is_model_ready("hurt", ""));
  EXPECT_FALSE(service_->is_ready());
  EXPECT_TRUE(service_->is_live());
  expect_well("well");
  gate->open();
  EXPECT_TRUE(send("hurt").get().ok());
  expect_well("hurt");
  EXPECT_TRUE(service_->is_ready());
}

TEST_F(RankFailure, RankThatStallsFailsItsRequestWithinTheTimeOfACollective) {
  const auto stall = std::make_shared<test::Gate>();
  arm([stall] {
    stall->wait();
    return Status();
  });
  const Status status = send("hurt").get();  // while rank 1 hangs
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("rank "));
  expect_well("well");
  EXPECT_TRUE(send("hurt").get().ok());
  stall->open();
  expect_well("hurt");
}

TEST_F(RankFailure, ClientThatGoesAwayStopsTheRunBetweenLaunches) {
  std::stop_source client;
  const auto held = std::make_shared<test::Gate>();
  arm([held] {
    held->wait();
    return Status();
  });
  auto answer = send("hurt", client.get_token());
  held->await_arrivals(1);
  client.request_stop();
  const Status status = answer.get();  // the other rank waits for this one, which is held
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.message();
  held->open();
  expect_well("hurt");
  expect_well("well");
}

}  // namespace
}  // namespace tutti::server
