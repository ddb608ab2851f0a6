// A server with a GPU that is none: plans on it, on the CPU and in an ensemble, with tensors in
// memory that clients share.
#include <gmock/gmock.h>

#include <future>

#include "backends/cpu/backend.h"
#include "cli/model_options.h"
#include "fakes.h"
#include "graph/printer.h"
#include "server/backend_loader.h"
#include "server/plan_backend.h"
#include "server/service.h"
#include "support/host_rank.h"

namespace tutti::server {
namespace {

using ::testing::HasSubstr;

// A rank of the CPU that gets so much memory at a time.
class PoorRank final : public tutti::test::HostRank {
 public:
  PoorRank(std::unique_ptr<RankDevice> device, const std::atomic<std::size_t>& room)
      : HostRank(std::move(device)), room_(room) {}
  bool is_host_memory() const override { return true; }
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    if (bytes > room_) {
      return Status(StatusCode::kResourceExhausted, str_cat(bytes, " bytes on GPU 0: full"));
    }
    return HostRank::allocate(bytes);
  }

 private:
  const std::atomic<std::size_t>& room_;
};

// The CPU under another name, whose regions are memory of devices 0 and 1.
class RegionGpu final : public Backend {
 public:
  std::string name() const override { return "gpu"; }
  int device_count() const override { return 2; }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RankDevice> rank, cpu_->create_rank(options));
    return std::unique_ptr<RankDevice>(std::make_unique<PoorRank>(std::move(rank), room));
  }
  Result<std::shared_ptr<std::byte>> open_device_memory(int device, std::span<const std::byte>,
                                                        std::size_t) override {
    auto& region = regions.at(static_cast<std::size_t>(device));
    return std::shared_ptr<std::byte>(std::shared_ptr<void>(),
                                      reinterpret_cast<std::byte*>(region.data()));
  }
  Status check_device_memory(int device, const void* data, std::size_t bytes) override {
    const auto& region = regions.at(static_cast<std::size_t>(device));
    const auto* at = static_cast<const float*>(data);
    if (at >= region.data() && at + bytes / 4 <= region.data() + region.size()) return {};
    return invalid_argument("it is not in the memory of device ", device);
  }

  std::array<std::array<float, 64>, 2> regions{};
  std::atomic<std::size_t> room{std::size_t{1} << 40};

 private:
  const std::unique_ptr<Backend> cpu_ = cpu::make_cpu_backend();
};

// y = 2 x + x x
constexpr const char* kGraph = R"(graph @main (%x: f32[b, 4]) {
  %double = Add(%x, %x)
  %square = Mul(%x, %x)
  %y = Add(%double, %square)
  return %y
})";

constexpr const char* kChain = R"(
platform: 'ensemble'
input [ { name: 'in' data_type: TYPE_FP32 dims: [-1, 4] } ]
output [ { name: 'out' data_type: TYPE_FP32 dims: [-1, 4] } ]
ensemble_scheduling {
  step [ { model_name: 'gpu' model_version: -1 input_map { key: 'x' value: 'in' }
           output_map { key: 'y' value: 'mid' } },
         { model_name: 'gpu' model_version: -1 input_map { key: 'x' value: 'mid' }
           output_map { key: 'y' value: 'out' } } ]
})";

class ServedGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    write_model("gpu", "instance_group [ { kind: KIND_GPU gpus: [0] } ]");
    write_model("cpu", "instance_group [ { kind: KIND_CPU } ]");
    folder_.write("chain/config.pbtxt", kChain);
    folder_.write("chain/1/note", "");
    std::vector<std::unique_ptr<ModelBackend>> backends;
    backends.push_back(std::make_unique<PlanBackend>(operators_.ops, *cpu_, &gpu_));
    auto loader = std::make_shared<BackendLoader>(std::move(backends), 100, make_silent_log());
    RepositoryOptions repository;
    repository.paths = {folder_.path()};
    repository_ =
        std::make_shared<ModelRepository>(std::move(repository), loader, make_silent_log());
    const Status status = repository_->start();
    ASSERT_TRUE(status.ok()) << status.message();
    ServiceOptions options;
    options.allows_client_shared_memory = true;
    options.gpu = &gpu_;
    service_ = std::make_unique<InferenceService>(repository_, options);
    const std::vector<std::byte> handle(64);
    for (int device : {0, 1}) {
      const std::string name = "r" + std::to_string(device);
      ASSERT_TRUE(service_->shared_memory().register_cuda(name, handle, device, 256).ok());
    }
  }

  void write_model(const std::string& name, const std::string& config) {
    folder_.write(name + "/config.pbtxt", config);
    folder_.write(name + "/1/note", "");
    Plan plan;
    auto graph = parse_graph(kGraph, operators_.ops);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    plan.main = *std::move(graph);
    plan.inputs = {{"x", DType::kFloat32, plan.main->inputs()[0]->shape()}};
    plan.outputs = {{"y", DType::kFloat32, plan.main->outputs()[0]->shape()}};
    const Status status = write_plan(plan, folder_.path() + "/" + name + "/1/model.plan");
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // The first 8 floats of one region in, the last 8 of another out; "" for the message.
  Status infer(const std::string& model, const std::string& from, const std::string& to,
               std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8}) {
    const bool is_chain = model == "chain";
    InferRequest request;
    request.model_name = model;
    const auto rows = static_cast<std::int64_t>(values.size() / 4);
    InferInput input{is_chain ? "in" : "x", DType::kFloat32, {rows, 4}, {}};
    if (from.empty()) {
      input.data = std::as_bytes(std::span(values));
    } else {
      input.shared_memory = SharedMemoryRef{from, 0, 32};
    }
    request.inputs.push_back(std::move(input));
    request.outputs = {is_chain ? "out" : "y"};
    if (!to.empty()) request.output_options.push_back({SharedMemoryRef{to, 224, 32}, 0});
    sink_ = std::make_shared<test::VectorSink>();
    std::promise<Status> answered;
    service_->infer(std::move(request), sink_, [&](const Result<InferResponse>& response) {
      answered.set_value(response.status());
    });
    return answered.get_future().get();
  }

  static float f(float x) { return 2 * x + x * x; }
  void fill(int device, float first) {
    for (int i = 0; i < 8; ++i) gpu_.regions[device][i] = first + static_cast<float>(i);
  }
  void expect_written(int device, const std::function<float(int)>& value) {
    for (int i = 0; i < 8; ++i) EXPECT_EQ(gpu_.regions[device][56 + i], value(i)) << i;
    for (int i = 8; i < 56; ++i) EXPECT_EQ(gpu_.regions[device][i], 0) << i;
    EXPECT_TRUE(sink_->outputs.empty());
  }

  const cli::Operators operators_;
  const std::unique_ptr<Backend> cpu_ = cpu::make_cpu_backend();
  RegionGpu gpu_;
  test::TempFolder folder_;
  std::shared_ptr<ModelRepository> repository_;
  std::unique_ptr<InferenceService> service_;
  std::shared_ptr<test::VectorSink> sink_;
};

TEST_F(ServedGpu, TensorsStayOnTheGpu) {
  for (const float first : {1.0F, 5.0F}) {
    fill(0, first);
    const Status status = infer("gpu", "r0", "r0");
    ASSERT_TRUE(status.ok()) << status.to_string();
    expect_written(0, [&](int i) { return f(first + static_cast<float>(i)); });
  }
}

TEST_F(ServedGpu, OneSideOrAnotherGpuWillDo) {
  fill(1, 2);
  ASSERT_TRUE(infer("gpu", "r1", "").ok());
  float y[8];
  std::memcpy(y, sink_->outputs[0].data(), sizeof y);
  EXPECT_EQ(y[7], f(9));
  ASSERT_TRUE(infer("gpu", "", "r1").ok());
  expect_written(1, [](int i) { return f(static_cast<float>(i + 1)); });
}

TEST_F(ServedGpu, ModelsOnTheCpuRefuseByName) {
  const Status input = infer("cpu", "r0", "");
  EXPECT_EQ(input.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(input.message(),
              HasSubstr("input 'x': it lies in the memory of device 0, but the cpu backend"));
  const Status output = infer("cpu", "", "r1");
  EXPECT_EQ(output.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(output.message(), HasSubstr("output 'y': it lies in the memory of device 1"));
  EXPECT_TRUE(infer("cpu", "", "").ok());
}

TEST_F(ServedGpu, StepsOfAnEnsemblePassThemOn) {
  fill(0, 1);
  const Status status = infer("chain", "r0", "r0");
  ASSERT_TRUE(status.ok()) << status.to_string();
  expect_written(0, [](int i) { return f(f(static_cast<float>(i + 1))); });
}

TEST_F(ServedGpu, ARequestThatDoesNotFitIsAnsweredAndTheModelServesOn) {
  ASSERT_TRUE(infer("gpu", "", "").ok());
  gpu_.room = 1000;
  const Status refused = infer("gpu", "", "", std::vector<float>(4000, 1.0F));
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("model 'gpu': rank 0 of 1: "));
  EXPECT_THAT(refused.message(), HasSubstr(" bytes on GPU 0: full"));
  EXPECT_TRUE(infer("gpu", "", "").ok());
  EXPECT_TRUE(*service_->is_model_ready("gpu", ""));
}

}  // namespace
}  // namespace tutti::server
