// A backend whose memory is not the host's: what a GPU asks of the executor.
#include <gtest/gtest.h>

#include "runtime/instance.h"
#include "toy.h"

namespace tutti {
namespace {

// Which addresses are the device's.
class Ranges {
 public:
  void add(const void* begin, std::size_t size) {
    ranges_.push_back({static_cast<const std::byte*>(begin), size});
  }
  bool contains(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    for (const auto& [begin, size] : ranges_) {
      if (at >= begin && at <= begin + size) return true;
    }
    return false;
  }

 private:
  std::vector<std::pair<const std::byte*, std::size_t>> ranges_;
};

class CheckedKernel final : public Kernel {
 public:
  CheckedKernel(std::unique_ptr<Kernel> kernel, const Ranges& ranges)
      : kernel_(std::move(kernel)), ranges_(ranges) {}
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  Status run(const KernelArgs& args) override {
    for (const void* input : args.inputs) {
      if (!ranges_.contains(input)) return internal_error("an input is host memory");
    }
    for (const void* output : args.outputs) {
      if (!ranges_.contains(output)) return internal_error("an output is host memory");
    }
    return kernel_->run(args);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  const Ranges& ranges_;
};

class DiscreteDevice final : public RankDevice {
 public:
  explicit DiscreteDevice(std::unique_ptr<RankDevice> host) : host_(std::move(host)) {}

  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, host_->make_kernel(spec));
    return std::unique_ptr<Kernel>(std::make_unique<CheckedKernel>(std::move(kernel), ranges_));
  }
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> buffer, host_->allocate(bytes));
    ranges_.add(buffer->data(), bytes);
    return buffer;
  }
  Result<const void*> place_constant(const Tensor& tensor) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> buffer, allocate(tensor.byte_size()));
    TUTTI_RETURN_IF_ERROR(upload(buffer->data(), tensor.data(), tensor.byte_size()));
    constants_.push_back(std::move(buffer));
    return static_cast<const void*>(constants_.back()->data());
  }
  Status upload(void* target, const void* host, std::size_t bytes) override {
    if (!ranges_.contains(target)) return internal_error("upload to host memory");
    if (bytes > 0 && ranges_.contains(host)) return internal_error("upload from the device");
    return host_->upload(target, host, bytes);
  }
  Status download(void* host, const void* source, std::size_t bytes) override {
    if (!ranges_.contains(source)) return internal_error("download from host memory");
    return host_->download(host, source, bytes);
  }
  Status finish() override { return {}; }

 private:
  std::unique_ptr<RankDevice> host_;
  Ranges ranges_;
  std::vector<std::unique_ptr<DeviceBuffer>> constants_;
};

class DiscreteBackend final : public Backend {
 public:
  std::string name() const override { return "discrete"; }
  int device_count() const override { return 3; }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RankDevice> host, cpu_.create_rank(options));
    return std::unique_ptr<RankDevice>(std::make_unique<DiscreteDevice>(std::move(host)));
  }

 private:
  cpu::CpuBackend cpu_{toy::kernels()};
};

TEST(DiscreteDevice, RequestsAreUploadedAndAnswersDownloaded) {
  DiscreteBackend backend;
  auto instance = Instance::load(toy::make_plan("cp=3"), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  for (int step = 0; step < 3; ++step) {
    const Tensor x = toy::numbers({2, 7, 4, 2}, step);
    const Tensor text = toy::numbers({2, 4}, step / 2);
    const auto outputs = (*instance)->infer({{"x", x}, {"text", text}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(toy::values(outputs->at("z")), toy::expected_z(x, text));
    EXPECT_EQ(toy::values(outputs->at("echo")), toy::values(x));
  }
}

TEST(DiscreteDevice, OutputsMayBeConstantsAndEachOther) {
  DiscreteBackend backend;
  auto instance = Instance::load(toy::plan_of("", R"(graph @g (%x: f32[2, 3]) {
    %c = constant f32[2] [5, 6]
    %y = Affine(%x)
    %v = View(%y) {shape = dims[6]}
    return %c, %y, %v
  })"),
                                 backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const auto outputs = (*instance)->infer({{"x", toy::numbers({2, 3}, 1)}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(toy::values(outputs->at("c")), (std::vector<float>{5, 6}));
  EXPECT_EQ(toy::values(outputs->at("y")), toy::values(outputs->at("v")));
}

TEST(DiscreteDevice, PrologueResultsMayBeInputsAndEachOther) {
  Plan plan = toy::plan_of("", R"(graph @main (%x: f32[2], %same: f32[2], %twice: f32[2]) {
    %a = Affine(%same)
    %b = Affine(%twice)
    return %a, %b
  })");
  plan.prologue = toy::plan_of("", R"(graph @prologue (%x: f32[2]) {
    %same = View(%x) {shape = dims[2]}
    %twice = View(%same) {shape = dims[2]}
    return %same, %twice
  })")
                      .main;
  plan.inputs = {{"x", DType::kFloat32, {2}}};
  DiscreteBackend backend;
  auto instance = Instance::load(std::move(plan), backend);
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  const Tensor x = toy::numbers({2}, 1);
  const auto outputs = (*instance)->infer({{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(toy::values(outputs->at("a"))[1], 2 * toy::values(x)[1] + 1);
  EXPECT_EQ(toy::values(outputs->at("b"))[1], 2 * toy::values(x)[1] + 1);
}

TEST(DiscreteDevice, MoreRanksThanDevicesNameBothNumbers) {
  DiscreteBackend backend;
  EXPECT_EQ(Instance::load(toy::make_plan("cp=4"), backend).status().message(),
            "the plan needs 4 ranks (mesh cp=4), but discrete has 3 devices");
}

}  // namespace
}  // namespace tutti
