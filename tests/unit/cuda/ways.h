// What tests of several ways to compute the same share: a rank's context by itself, operands on the
// device, and errors against plain sums.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cuda/artifact_store.h"
#include "backends/cuda/cudnn.h"
#include "backends/cuda/rank_context.h"
#include "base/half.h"

namespace tutti::cuda {

// A tensor on the device, and what it holds as doubles.
struct Operand {
  std::unique_ptr<DeviceMemory> memory;
  std::vector<double> values;
};

template <class T>
Operand upload(const std::vector<double>& numbers) {
  std::vector<T> narrow;
  Operand made;
  for (const double number : numbers) {
    narrow.push_back(static_cast<T>(static_cast<float>(number)));
    made.values.push_back(static_cast<double>(static_cast<float>(narrow.back())));
  }
  auto memory = DeviceMemory::allocate(0, narrow.size() * sizeof(T));
  EXPECT_TRUE(memory.ok()) << memory.status().to_string();
  if (!memory.ok()) return made;
  made.memory = *std::move(memory);
  EXPECT_EQ(cudaMemcpy(made.memory->data(), narrow.data(), narrow.size() * sizeof(T),
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  return made;
}

class CudaWays : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    context_.arch = 10 * properties.major + properties.minor;
    context_.multiprocessors = properties.multiProcessorCount;
    context_.shared_bytes = properties.sharedMemPerBlockOptin;
    compiler_ = KernelCompiler::create(store_);
    context_.compiler = compiler_.get();
    auto cudnn = Cudnn::create(0, context_.arch);
    if (cudnn.ok()) cudnn_ = *std::move(cudnn);
    context_.cudnn = cudnn_.get();
    no_cudnn_ = cudnn.status().message();
    ASSERT_EQ(cudaStreamCreate(&context_.stream), cudaSuccess);
  }
  void TearDown() override {
    context_.cudnn_handle.reset();
    if (context_.stream != nullptr) (void)cudaStreamDestroy(context_.stream);
  }

  Operand random(DType dtype, std::int64_t count) {
    std::normal_distribution<double> normal;
    std::vector<double> numbers(static_cast<std::size_t>(count));
    for (double& number : numbers) number = normal(generator_);
    return dtype == DType::kFloat32   ? upload<float>(numbers)
           : dtype == DType::kFloat16 ? upload<Half>(numbers)
                                      : upload<BFloat16>(numbers);
  }

  // Runs on NaNs and gives the relative error in the whole.
  template <class Run>
  double error_of(DType dtype, const std::vector<double>& want, Run run) {
    const std::size_t bytes = want.size() * dtype_size(dtype);
    auto out = DeviceMemory::allocate(0, bytes);
    if (!out.ok()) return NAN;
    (void)cudaMemset((*out)->data(), 0xff, bytes);
    const Status status = run((*out)->data());
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(cudaStreamSynchronize(context_.stream), cudaSuccess);
    std::vector<std::byte> host(bytes);
    (void)cudaMemcpy(host.data(), (*out)->data(), bytes, cudaMemcpyDeviceToHost);
    double error = 0;
    double norm = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::byte* at = host.data() + i * dtype_size(dtype);
      const double got =
          dtype == DType::kFloat32 ? static_cast<double>(*reinterpret_cast<const float*>(at))
          : dtype == DType::kFloat16
              ? static_cast<double>(static_cast<float>(*reinterpret_cast<const Half*>(at)))
              : static_cast<double>(static_cast<float>(*reinterpret_cast<const BFloat16*>(at)));
      error += (got - want[i]) * (got - want[i]);
      norm += want[i] * want[i];
    }
    return std::sqrt(error / norm);
  }

  // Whether the card and NVRTC know the instructions that only compute capability 9.0 has.
  Status hopper() {
    if (context_.arch != 90) return unimplemented("not a card of compute capability 9.0");
    KernelSource source;
    source.entry = "nothing";
    source.defines = {{"NUM_POINTERS", "1"}, {"NUM_NUMBERS", "1"}};
    source.needs_exact_arch = true;
    source.code = "extern \"C\" __global__ void KERNEL_NAME(const __grid_constant__ Params) {}";
    const Status status = compiler_->compile(source, context_.arch).status();
    if (status.code() == StatusCode::kUnimplemented) return status;
    EXPECT_TRUE(status.ok()) << status.to_string();
    return {};
  }

  ArtifactStore store_;
  std::unique_ptr<KernelCompiler> compiler_;
  std::unique_ptr<Cudnn> cudnn_;
  std::string no_cudnn_;  // why there is none
  RankContext context_;
  std::mt19937 generator_{7};
};

inline double tolerance_of(DType dtype) {
  return dtype == DType::kFloat32 ? 1e-4 : dtype == DType::kFloat16 ? 2e-3 : 1e-2;
}

}  // namespace tutti::cuda
