// The emulator finds what it is for: every kind of mistake that it promises to show, made on
// purpose.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace {

// Of the backend's form: addresses, then numbers. `body` is that of a kernel named by its test.
cudaKernel_t compile(const std::string& body, std::string* log = nullptr) {
  const std::string text =
      "#define KERNEL_NAME probe\n#define NUM_POINTERS 2\n#define NUM_NUMBERS 1\n"
      "struct Params { void* p[NUM_POINTERS]; long long n[NUM_NUMBERS]; };\n"
      "extern \"C\" __global__ void __launch_bounds__(256) KERNEL_NAME(const __grid_constant__ "
      "Params p) {\n" +
      body + "\n}\n";
  nvrtcProgram program = nullptr;
  EXPECT_EQ(nvrtcCreateProgram(&program, text.c_str(), "probe.cu", 0, nullptr, nullptr),
            NVRTC_SUCCESS);
  const bool compiles = nvrtcCompileProgram(program, 0, nullptr) == NVRTC_SUCCESS;
  std::size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  std::string said(size, ' ');
  nvrtcGetProgramLog(program, said.data());
  if (log != nullptr) *log = said;
  if (!compiles) return nullptr;
  nvrtcGetCUBINSize(program, &size);
  std::string code(size, ' ');
  nvrtcGetCUBIN(program, code.data());
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  EXPECT_EQ(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaSuccess);
  EXPECT_EQ(cudaLibraryGetKernel(&kernel, library, "probe"), cudaSuccess) << said;
  return kernel;
}

struct Parameters {
  const void* p[2] = {};
  std::int64_t n[1] = {};
};

cudaError_t launch(cudaKernel_t kernel, Parameters parameters, int threads = 64,
                   cudaStream_t stream = nullptr, std::size_t shared_bytes = 0, int blocks = 1) {
  void* arguments[] = {&parameters};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                          dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
                          arguments, shared_bytes, stream);
}

int* device_ints(int count) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, static_cast<std::size_t>(count) * sizeof(int)), cudaSuccess);
  return static_cast<int*>(memory);
}

std::vector<int> read_back(const int* memory, int count) {
  std::vector<int> host(static_cast<std::size_t>(count));
  EXPECT_EQ(cudaMemcpy(host.data(), memory, host.size() * sizeof(int), cudaMemcpyDefault),
            cudaSuccess);
  return host;
}

// Ends the process with what the device said, since a device that has failed stays so.
void run_and_exit(cudaKernel_t kernel, const Parameters& parameters, int threads = 64,
                  std::size_t shared_bytes = 0) {
  if (launch(kernel, parameters, threads, nullptr, shared_bytes) != cudaSuccess) std::exit(3);
  std::exit(cudaDeviceSynchronize() == cudaSuccess ? 0 : 1);
}

class CudaEmulator : public ::testing::Test {
 protected:
  // The device's thread does not survive a fork: every death test starts the program anew.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};
using CudaEmulatorDeathTest = CudaEmulator;

// --- What is right ------------------------------------------------------------------------------

TEST_F(CudaEmulator, RunsBlocksOfThreadsThatWaitForEachOther) {
  cudaKernel_t kernel = compile(R"(
    __shared__ int parts[64];
    parts[threadIdx.x] = (int)threadIdx.x;
    __syncthreads();
    int sum = parts[63 - threadIdx.x];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    ((int*)p.p[0])[blockIdx.x * 64 + threadIdx.x] = sum + (int)p.n[0] * (int)gridDim.x;)");
  ASSERT_NE(kernel, nullptr);
  int* out = device_ints(192);
  ASSERT_EQ(launch(kernel, {{out}, {1000}}, 64, nullptr, 0, 3), cudaSuccess);
  const std::vector<int> got = read_back(out, 192);
  for (int i = 0; i < 192; ++i) {
    // Threads 0 to 31 add 32 to 63, the others 0 to 31.
    EXPECT_EQ(got[static_cast<std::size_t>(i)], 3000 + (i % 64 < 32 ? 1520 : 496)) << i;
  }
}

TEST_F(CudaEmulator, MultipliesMatricesByWarps) {
  // a[row][k] = row + k, b[k][column] = k == column + 1 ? 1 : 0: the product is a, one column on.
  cudaKernel_t kernel = compile(R"(
    const unsigned lane = threadIdx.x;
    const auto half = [](float x) { return (unsigned)(__builtin_bit_cast(unsigned, x) >> 16); };
    unsigned a[4], b[2];
    for (unsigned i = 0; i < 4; ++i) {
      const float x = (float)(lane / 4 + i % 2 * 8 + lane % 4 * 2 + i / 2 * 8);
      a[i] = half(x) | half(x + 1) << 16;
    }
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned k = lane % 4 * 2 + i * 8, column = lane / 4;
      b[i] = half(k == column + 1 ? 1.0f : 0.0f) | half(k + 1 == column + 1 ? 1.0f : 0.0f) << 16;
    }
    float c[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    for (unsigned i = 0; i < 4; ++i) {
      ((int*)p.p[0])[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = (int)(c[i] * 2);
    })");
  ASSERT_NE(kernel, nullptr);
  int* out = device_ints(128);
  ASSERT_EQ(launch(kernel, {{out}}, 32), cudaSuccess);
  const std::vector<int> got = read_back(out, 128);
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(got[static_cast<std::size_t>(i)], 2 * (i / 8 + i % 8 + 1) + 1) << i;
  }
}

TEST_F(CudaEmulator, ReplaysWhatStreamsDidInACapture) {
  cudaKernel_t add = compile("((int*)p.p[0])[threadIdx.x] += (int)p.n[0];");
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreate(&first), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&second), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  int* out = device_ints(64);
  ASSERT_EQ(cudaMemset(out, 0, 256), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(launch(add, {{out}, {1}}, 64, first), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  ASSERT_EQ(launch(add, {{out}, {10}}, 64, second), cudaSuccess);
  cudaGraph_t graph = nullptr;
  // The second stream's work is not before the end.
  EXPECT_EQ(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureUnjoined);
  ASSERT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(launch(add, {{out}, {1}}, 64, first), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  ASSERT_EQ(launch(add, {{out}, {10}}, 64, second), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, second), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  EXPECT_NE(cudaStreamEndCapture(first, &graph), cudaSuccess);  // the query has spoilt it
  ASSERT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(launch(add, {{out}, {1}}, 64, first), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(first, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int run = 0; run < 3; ++run) ASSERT_EQ(cudaGraphLaunch(executable, first), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(first), cudaSuccess);
  EXPECT_THAT(read_back(out, 64), ::testing::Each(3));
  (void)cudaGetLastError();
}

// --- What is wrong ------------------------------------------------------------------------------

// Some of many tries in which nothing orders two streams go one way, others the other way.
TEST_F(CudaEmulator, StreamsThatNoEventOrdersRunInAnyOrder) {
  cudaKernel_t set = compile("((int*)p.p[0])[threadIdx.x] = (int)p.n[0];");
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  int* out = device_ints(64);
  int wins[2] = {0, 0};
  for (int run = 0; run < 40; ++run) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(launch(set, {{out}, {i}}, 64, streams[i]), cudaSuccess);
    }
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ++wins[read_back(out, 1)[0]];
  }
  EXPECT_GT(wins[0], 0);
  EXPECT_GT(wins[1], 0);
}

TEST_F(CudaEmulator, RefusesLaunchesThatACardRefuses) {
  cudaKernel_t kernel = compile("((int*)p.p[0])[0] = 1;");
  int* out = device_ints(1);
  EXPECT_EQ(launch(kernel, {{out}}, 257), cudaErrorInvalidValue);  // __launch_bounds__(256)
  EXPECT_EQ(launch(kernel, {{out}}, 64, nullptr, 49 << 10), cudaErrorInvalidValue);
  ASSERT_EQ(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            64 << 10, 0),
            cudaSuccess);
  EXPECT_EQ(launch(kernel, {{out}}, 64, nullptr, 49 << 10), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  (void)cudaGetLastError();
}

TEST_F(CudaEmulator, NamesInstructionsThatItCannotDo) {
  std::string log;
  EXPECT_EQ(compile(R"(asm volatile("wgmma.fence.sync.aligned;" ::: "memory");)", &log), nullptr);
  EXPECT_THAT(log, ::testing::HasSubstr("ptx_wgmma_fence_sync_aligned"));
}

TEST_F(CudaEmulatorDeathTest, FindsWritesBehindAnAllocation) {
  cudaKernel_t kernel = compile("((int*)p.p[0])[threadIdx.x] = 1;");
  EXPECT_EXIT(run_and_exit(kernel, {{device_ints(63)}}), ::testing::ExitedWithCode(1),
              "kernel probe: something was written behind an allocation of 252 bytes");
  EXPECT_EXIT(run_and_exit(kernel, {{device_ints(64)}}, 65), ::testing::KilledBySignal(SIGSEGV),
              "memory that is not there.*kernel probe");
}

TEST_F(CudaEmulatorDeathTest, FindsAddressesOfMemoryThatIsFreedOrOfTheHost) {
  cudaKernel_t kernel = compile("((int*)p.p[0])[threadIdx.x] = 1;");
  EXPECT_EXIT(
      {
        int* out = device_ints(64);
        (void)cudaFree(out);
        run_and_exit(kernel, {{out}});
      },
      ::testing::ExitedWithCode(1), "parameter 0: address .* is in no memory of a device");
  std::vector<int> host(64);
  EXPECT_EXIT(run_and_exit(kernel, {{host.data()}}), ::testing::ExitedWithCode(1),
              "parameter 0: address .* is in no memory of a device, nor pinned");
}

TEST_F(CudaEmulatorDeathTest, FindsMemoryOfADeviceThatIsNotReached) {
  cudaKernel_t kernel = compile("((int*)p.p[0])[threadIdx.x] = 1;");
  EXPECT_EXIT(
      {
        (void)cudaSetDevice(1);
        int* out = device_ints(64);
        (void)cudaSetDevice(0);
        run_and_exit(kernel, {{out}});
      },
      ::testing::ExitedWithCode(1), "is of device 1, which device 0 does not reach");
}

TEST_F(CudaEmulatorDeathTest, FindsMisalignedAccesses) {
  cudaKernel_t kernel = compile("((int*)((char*)p.p[0] + p.n[0]))[threadIdx.x] = 1;");
  EXPECT_EXIT(run_and_exit(kernel, {{device_ints(128)}, {2}}), ::testing::KilledBySignal(SIGILL),
              "misaligned access.*kernel probe");
}

TEST_F(CudaEmulatorDeathTest, FindsThreadsThatWaitForEver) {
  cudaKernel_t kernel = compile("if (threadIdx.x < 40) __syncthreads(); else __syncwarp();");
  EXPECT_EXIT(run_and_exit(kernel, {{device_ints(64)}}), ::testing::ExitedWithCode(1),
              "threads wait for others that never come");
}

TEST_F(CudaEmulatorDeathTest, FindsWritesBehindSharedMemory) {
  cudaKernel_t kernel = compile(R"(
    extern __shared__ __align__(16) unsigned char memory[];
    __syncthreads();
    memory[threadIdx.x] = 1;)");
  EXPECT_EXIT(run_and_exit(kernel, {{device_ints(64)}}, 64, 63), ::testing::ExitedWithCode(1),
              "writes behind its 63 bytes of shared memory");
}

TEST_F(CudaEmulator, ShowsABarrierThatIsMissing) {
  // Every thread reads what the next one writes: without a barrier some read what was there before.
  cudaKernel_t kernel = compile(R"(
    __shared__ int parts[64];
    parts[threadIdx.x] = 7;
    __syncwarp();
    ((int*)p.p[0])[threadIdx.x] = parts[(threadIdx.x + 32) % 64];)");
  int* out = device_ints(64);
  ASSERT_EQ(launch(kernel, {{out}}), cudaSuccess);
  EXPECT_THAT(read_back(out, 64), ::testing::Contains(-1));
}

TEST_F(CudaEmulatorDeathTest, KeepsTheHostFromMemoryOfDevices) {
  // Where the processor can tell threads apart.
  int* out = device_ints(64);
  const bool has_keys = [] {
    std::FILE* file = std::fopen("/proc/cpuinfo", "r");
    std::string text(1 << 16, '\0');
    text.resize(file == nullptr ? 0 : std::fread(text.data(), 1, text.size(), file));
    if (file != nullptr) std::fclose(file);
    return text.find(" ospke") != std::string::npos;
  }();
  if (!has_keys) GTEST_SKIP() << "the processor has no protection keys";
  EXPECT_EXIT(std::exit(out[0]), ::testing::KilledBySignal(SIGSEGV), "not the host's");
}

}  // namespace
