// Memory of a GPU that clients share, with a GPU that is none: its memory may not be touched by the
// host, and ends the process if it is.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <future>

#include "fakes.h"
#include "server/loaded_model.h"
#include "server/placement.h"
#include "server/scheduler/scheduler.h"
#include "server/shared_memory/registry.h"

namespace tutti::server {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kPage = 4096;

class UntouchableGpu final : public Backend {
 public:
  std::string name() const override { return "untouchable"; }
  int device_count() const override { return 2; }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions&) override {
    return unimplemented("no ranks");
  }
  Result<std::shared_ptr<std::byte>> open_device_memory(int device,
                                                        std::span<const std::byte> handle,
                                                        std::size_t bytes) override {
    if (device >= 2) return invalid_argument("no device ", device);
    if (handle.size() != 64) return invalid_argument("a handle of ", handle.size(), " bytes");
    if (bytes > kPage) return invalid_argument("there are ", kPage, " bytes, not ", bytes);
    void* memory = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ++open;
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), [this](std::byte* gone) {
      munmap(gone, kPage);
      --open;
    });
  }
  int open = 0;
};

class CudaRegions : public ::testing::Test {
 protected:
  Status add(const std::string& name, std::int64_t device = 1, std::uint64_t bytes = 64) {
    return memory_.register_cuda(name, handle_, device, bytes);
  }

  UntouchableGpu gpu_;
  SharedMemoryRegistry memory_{true, &gpu_};
  const std::vector<std::byte> handle_ = std::vector<std::byte>(64);
};

TEST_F(CudaRegions, AreListedUntilTheyAreUnregistered) {
  EXPECT_TRUE(add("a", 0, 10).ok());
  EXPECT_TRUE(add("b", 1, 20).ok());
  const auto all = memory_.cuda_status("");
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].name, "a");
  EXPECT_EQ((*all)[1].device, 1);
  EXPECT_EQ(memory_.cuda_status("b")->front().byte_size, 20U);
  EXPECT_EQ(memory_.cuda_status("c").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(memory_.unregister_cuda("nothing").ok());
  EXPECT_TRUE(memory_.unregister_cuda("a").ok());
  EXPECT_EQ(gpu_.open, 1);
  EXPECT_TRUE(memory_.unregister_system("").ok());  // another kind
  EXPECT_EQ(gpu_.open, 1);
  EXPECT_TRUE(memory_.unregister_cuda("").ok());
  EXPECT_EQ(gpu_.open, 0);
}

TEST_F(CudaRegions, WhatCannotBeRegistered) {
  EXPECT_TRUE(add("a").ok());
  EXPECT_EQ(add("a").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(memory_.register_system("a", "/none", 0, 1).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(add("").code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(add("b", 1, 0).message(), HasSubstr("'b': byte_size is 0"));
  EXPECT_THAT(add("b", -1).message(), HasSubstr("device_id -1 does not exist"));
  EXPECT_THAT(add("b", std::int64_t{1} << 32).message(), HasSubstr("does not exist"));
  EXPECT_EQ(add("b", 2).message(), "shared memory region 'b': no device 2");
  EXPECT_EQ(add("b", 1, 5000).message(),
            "shared memory region 'b': there are 4096 bytes, not 5000");
  const auto shorter = std::span(handle_).first(63);
  EXPECT_EQ(memory_.register_cuda("b", shorter, 1, 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(gpu_.open, 1);
}

TEST_F(CudaRegions, WithoutAGpuOrPermissionThereAreNone) {
  SharedMemoryRegistry none(true);
  const Status refused = none.register_cuda("r", handle_, 0, 1);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("'r': GPUs not supported: no loaded backend has CUDA"));
  EXPECT_TRUE(none.cuda_status("")->empty());
  EXPECT_TRUE(none.unregister_cuda("").ok());
  SharedMemoryRegistry off(false, &gpu_);
  EXPECT_EQ(off.register_cuda("r", handle_, 0, 1).code(), StatusCode::kUnimplemented);
  EXPECT_EQ(off.unregister_cuda("").code(), StatusCode::kUnimplemented);
}

TEST_F(CudaRegions, AreHeldAsLongAsSomebodyUsesThem) {
  EXPECT_TRUE(add("a").ok());
  auto bytes = memory_.find({"a", 16, 8});
  ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
  EXPECT_EQ(bytes->place.device, 1);
  EXPECT_TRUE(is_on_device(bytes->place));
  EXPECT_TRUE(memory_.unregister_cuda("a").ok());
  EXPECT_EQ(gpu_.open, 1);
  EXPECT_TRUE(add("a").ok()) << "the name is free";
  bytes = not_found("let go");
  EXPECT_EQ(gpu_.open, 1);
}

TEST_F(CudaRegions, PlacesLieInside) {
  EXPECT_TRUE(add("a", 0, 64).ok());
  for (const auto& [offset, bytes] :
       {std::pair<std::uint64_t, std::uint64_t>{0, 65}, {64, 1}, {1, 64}, {~std::uint64_t{0}, 2}}) {
    EXPECT_THAT(memory_.find({"a", offset, bytes}).status().message(), HasSubstr("has 64 bytes"));
  }
  EXPECT_TRUE(memory_.find({"a", 64, 0}).ok());
}

// A request with `x` and `y` in the region "a".
InferRequest placed_request(DType dtype = DType::kFloat32) {
  InferRequest request;
  InferInput input{"x", dtype, {4, 2}, {}};
  input.shared_memory = SharedMemoryRef{"a", 1, 32};  // nowhere that the host could read
  request.inputs.push_back(std::move(input));
  request.outputs = {"y"};
  request.output_options.push_back({SharedMemoryRef{"a", 33, 31}, 0});
  return request;
}

TEST_F(CudaRegions, RequestsCarryThePlacesOfTheirTensors) {
  EXPECT_TRUE(add("a").ok());
  InferRequest request = placed_request();
  ASSERT_TRUE(place_inputs(memory_, &request).ok());
  EXPECT_TRUE(request.has_device_tensors);
  EXPECT_EQ(request.inputs[0].place.device, 1);
  EXPECT_EQ(request.inputs[0].data.size(), 32U);
  auto sink = PlacedOutputs::create(memory_, &request, std::make_shared<test::VectorSink>());
  ASSERT_TRUE(sink.ok()) << sink.status().to_string();
  EXPECT_TRUE(is_on_device((*sink)->place(0)));
  EXPECT_FALSE(is_on_device((*sink)->place(1)));
  const OutputDesc desc{"y", DType::kFloat32, {4}};
  const auto data = (*sink)->allocate(0, desc, 16);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(*data, request.inputs[0].data.data() + 32);
  std::vector<OutputDesc> outputs = {desc};
  EXPECT_TRUE((*sink)->complete(false, &outputs).ok());
  EXPECT_EQ(outputs[0].shared_memory->byte_size, 16U);
  EXPECT_THAT((*sink)->allocate(0, desc, 32).status().message(),
              HasSubstr("32 bytes do not fit into the 31"));
  InferRequest texts = placed_request(DType::kString);
  EXPECT_THAT(place_inputs(memory_, &texts).message(), HasSubstr("'x': BYTES elements in CUDA"));
}

TEST_F(CudaRegions, OutputsAloneMayLieThereToo) {
  EXPECT_TRUE(add("a").ok());
  InferRequest request = placed_request();
  request.inputs.clear();
  ASSERT_TRUE(PlacedOutputs::create(memory_, &request, std::make_shared<test::VectorSink>()).ok());
  EXPECT_TRUE(request.has_device_tensors);
}

// Says where its tensors are; nobody reads them.
class PlacesModel final : public ServableModel {
 public:
  Result<InferResult> infer(const InferRequest& request,
                            const std::shared_ptr<OutputSink>& sink) override {
    InferResult result;
    result.outputs.push_back({"y", DType::kFloat32, {1, 4}});
    if (!is_on_device(request.inputs[0].place)) return internal_error("x is on the host");
    if (!is_on_device(sink->place(0))) return internal_error("y is on the host");
    TUTTI_RETURN_IF_ERROR(sink->allocate(0, result.outputs[0], 16).status());
    return result;
  }
};

// Neither hashed, nor kept, nor joined with another request.
TEST_F(CudaRegions, AModelWithACacheAndBatchesGetsThemUntouched) {
  EXPECT_TRUE(add("a").ok());
  inference::ModelConfig config;
  config.set_max_batch_size(8);
  config.mutable_dynamic_batching()->set_max_queue_delay_microseconds(1000);
  auto* input = config.add_input();
  input->set_name("x");
  input->set_data_type(inference::TYPE_FP32);
  input->add_dims(8);
  auto* output = config.add_output();
  output->set_name("y");
  output->set_data_type(inference::TYPE_FP32);
  output->add_dims(4);
  std::vector<ScheduledInstance> instances;
  instances.push_back({std::make_unique<PlacesModel>(), nullptr});
  auto scheduler =
      std::make_unique<Scheduler>(std::move(instances), scheduling_options(config, 10));
  const auto cache = std::make_shared<ResponseCache>(1 << 20);
  LoadedModel model("m", 1, config, std::make_shared<ModelStatistics>(), std::move(scheduler),
                    {cache, 1});
  std::vector<std::promise<Status>> answers(3);
  for (auto& answer : answers) {
    InferRequest request = placed_request();
    request.inputs[0].shape = {1, 8};
    ASSERT_TRUE(place_inputs(memory_, &request).ok());
    auto sink = PlacedOutputs::create(memory_, &request, std::make_shared<test::VectorSink>());
    ASSERT_TRUE(sink.ok());
    InferDone done = [&](const Result<InferResponse>& response) {
      answer.set_value(response.status());
    };
    EXPECT_TRUE(model.infer(request, *sink, std::chrono::steady_clock::now(), done));
  }
  for (auto& answer : answers) {
    const Status status = answer.get_future().get();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  EXPECT_EQ(cache->used(), 0U);
}

}  // namespace
}  // namespace tutti::server
