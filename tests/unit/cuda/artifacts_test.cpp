// Kernels and choices that a plan brings along: nothing is compiled or measured again.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "backends/cuda/offline.h"
#include "rank_plans.h"
#include "support/temp_folder.h"

namespace tutti::cuda {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::string model_text() {
  std::string w = "0.125";
  for (int i = 1; i < 16 * 48; ++i) w += str_cat(", ", (i * 5 % 17 - 8) * 0.0625);
  std::string scale = "1.5";
  for (int i = 1; i < 16; ++i) scale += ", 0.5";
  return str_cat(R"(graph (%x: f32[1, t, 16]) {
  %w = constant f32[16, 48] [)",
                 w, R"(]
  %scale = constant f32[16] [)",
                 scale, R"(]
  %p = ShardSlice(%x) {axis = "cp", ranks = $N, dim = 1, units = dims[t]}
  %n = RMSNormalization(%p, %scale) {axis = 2, epsilon = 1e-6}
  %qkv = MatMul(%n, %w)
  %s = Sigmoid(%qkv)
  %q = Slice(%s) {axes = [2], starts = dims[0], ends = dims[16], steps = [1]}
  %sum = Add(%q, %n)
  %y = AllGather(%sum) {axis = "cp", ranks = $N, dim = 1, units = dims[t], size = dims[t]}
  return %y
})");
}

class CudaArtifacts : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    architecture_ = str_cat("sm_", 10 * properties.major + properties.minor);
    if (const char* old = std::getenv("TUTTI_CACHE_DIR")) old_cache_ = old;
    use_cache("a");
  }
  void TearDown() override {
    if (old_cache_.empty()) {
      ::unsetenv("TUTTI_CACHE_DIR");
    } else {
      ::setenv("TUTTI_CACHE_DIR", old_cache_.c_str(), 1);
    }
  }

  // Backends made from now on find an empty cache.
  void use_cache(const std::string& name) {
    ::setenv("TUTTI_CACHE_DIR", temporary_.file(name).c_str(), 1);
  }

  static Plan model(std::vector<Artifact> artifacts = {}) {
    Plan plan = plan_of(2, model_text());
    plan.dims = {{"t", {2, 12, 64}}};
    plan.artifacts = std::move(artifacts);
    return plan;
  }

  struct Ran {
    std::vector<float> y;
    std::size_t compiled = 0;
    std::vector<Artifact> artifacts;
  };
  static Ran run(std::vector<Artifact> artifacts) {
    Ran ran;
    auto backend = CudaBackend::create();
    EXPECT_TRUE(backend.ok()) << backend.status().to_string();
    if (!backend.ok()) return ran;
    auto instance = Instance::load(model(std::move(artifacts)), **backend, {0, 0});
    EXPECT_TRUE(instance.ok()) << instance.status().to_string();
    if (!instance.ok()) return ran;
    const auto outputs = (*instance)->infer({{"x", numbers({1, 12, 16}, 3)}});
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    if (!outputs.ok()) return ran;
    const Tensor& y = outputs->at("y");
    ran.y.assign(y.data_as<float>(), y.data_as<float>() + y.element_count());
    ran.compiled = static_cast<CudaBackend&>(**backend).num_compiled();
    ran.artifacts = (*backend)->artifacts();
    return ran;
  }

  Result<std::vector<Artifact>> precompiled(const std::string& architecture) {
    TUTTI_ASSIGN_OR_RETURN(auto backend, OfflineBackend::create(architecture));
    TUTTI_ASSIGN_OR_RETURN(auto instance, Instance::load(model(), *backend, {0, 0}));
    return backend->artifacts();
  }

  static float most_of(const std::vector<float>& numbers) {
    float most = 0;
    for (const float number : numbers) most = std::max(most, std::abs(number));
    return most;
  }
  static std::size_t count_of(const std::vector<Artifact>& artifacts, const std::string& kind) {
    return static_cast<std::size_t>(
        std::count_if(artifacts.begin(), artifacts.end(),
                      [&](const Artifact& artifact) { return artifact.kind == kind; }));
  }
  std::size_t files_in_cache(const std::string& name) {
    std::error_code none;
    const auto files = std::filesystem::recursive_directory_iterator(temporary_.file(name), none);
    return static_cast<std::size_t>(std::count_if(
        begin(files), end(files), [](const auto& entry) { return entry.is_regular_file(); }));
  }

  const test::TempFolder temporary_;
  std::string architecture_;
  std::string old_cache_;
};

TEST_F(CudaArtifacts, OfAPlanCompiledWithoutADeviceAreAllThatADeviceNeeds) {
  const Ran alone = run({});
  EXPECT_GT(alone.compiled, 3);
  use_cache("b");
  const auto artifacts = precompiled(architecture_);
  ASSERT_TRUE(artifacts.ok()) << artifacts.status().to_string();
  EXPECT_EQ(count_of(*artifacts, "cubin"), artifacts->size());
  EXPECT_EQ(artifacts->front().target, architecture_);
  use_cache("c");
  const Ran shipped = run(*artifacts);
  EXPECT_EQ(shipped.compiled, 0);
  // Each run measures its products' algorithms, which sum in different orders.
  EXPECT_THAT(shipped.y, Pointwise(FloatNear(1e-4F * most_of(alone.y)), alone.y));
}

TEST_F(CudaArtifacts, OfACardWhereThePlanRanLeaveNothingToMeasureEither) {
  const Ran first = run({});
  EXPECT_GT(count_of(first.artifacts, "product"), 0);
  use_cache("b");
  const Ran second = run(first.artifacts);
  EXPECT_EQ(second.compiled, 0);
  EXPECT_EQ(files_in_cache("b"), 0);  // neither machine code nor choices
  EXPECT_EQ(second.y, first.y);
  EXPECT_EQ(second.artifacts.size(), first.artifacts.size());
}

TEST_F(CudaArtifacts, ForAnotherArchitectureAreLeftAside) {
  const std::string other = architecture_ == "sm_90" ? "sm_80" : "sm_90";
  const auto artifacts = precompiled(other);
  ASSERT_TRUE(artifacts.ok()) << artifacts.status().to_string();
  use_cache("b");
  EXPECT_GT(run(*artifacts).compiled, 3);
}

TEST_F(CudaArtifacts, ThatTheDriverDoesNotTakeAreCompiledAnew) {
  const Ran good = run({});
  std::vector<Artifact> broken = good.artifacts;
  for (Artifact& artifact : broken) {
    if (artifact.kind == "cubin") artifact.content = "no machine code";
  }
  use_cache("b");
  const Ran again = run(broken);
  EXPECT_EQ(again.compiled, good.compiled);
  EXPECT_EQ(again.y, good.y);
}

TEST_F(CudaArtifacts, ThatSeveralRanksNeedAreMadeOnce) {
  const Ran ran = run({});
  EXPECT_EQ(ran.compiled, count_of(ran.artifacts, "cubin"));
}

TEST(OfflineBackend, NamesTheArchitecturesThatThereAre) {
  EXPECT_THAT(OfflineBackend::create("sm_91").status().message(),
              ::testing::AllOf(HasSubstr("'sm_91' is no architecture"), HasSubstr("sm_90")));
}

TEST(OfflineBackend, RunsNothing) {
  auto backend = OfflineBackend::create("sm_90");
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  auto rank = (*backend)->create_rank({});
  ASSERT_TRUE(rank.ok());
  EXPECT_EQ((*rank)->finish().code(), StatusCode::kUnimplemented);
}

TEST(KernelCompiler, WithoutNvrtcTakesWhatIsOfferedAndNamesWhatIsNot) {
  const test::TempFolder temporary;
  KernelSource source;
  source.entry = "some_kernel";
  source.code = "/* nothing */";
  ArtifactStore first(temporary.path());
  const auto with = KernelCompiler::create(first);
  if (!with->has_nvrtc().ok()) GTEST_SKIP() << with->has_nvrtc().message();
  source.defines = {{"NUM_POINTERS", "1"}, {"NUM_NUMBERS", "1"}};
  source.code = "extern \"C\" __global__ void KERNEL_NAME(Params p) {}";
  const auto made = with->compile(source, 90);
  ASSERT_TRUE(made.ok()) << made.status().to_string();

  ArtifactStore second("");
  const auto without = KernelCompiler::create(second, "libnvrtc.so.none");
  EXPECT_THAT(without->compile(source, 90).status().message(),
              ::testing::AllOf(HasSubstr("kernel some_kernel for sm_90 is neither in the plan"),
                               HasSubstr("libnvrtc.so.none is missing")));
  second.offer(**made);
  const auto found = without->compile(source, 90);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(**found, **made);
  EXPECT_FALSE(without->compile(source, 100).ok());
}

}  // namespace
}  // namespace tutti::cuda
