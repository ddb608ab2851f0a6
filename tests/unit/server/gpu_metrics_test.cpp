#include <gmock/gmock.h>

#include "loading_fixture.h"
#include "server/metrics/collector.h"

namespace tutti::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two cards: one that tells all, and uses 5 J between two looks, and one that tells nothing; a
// third one does not know what it draws.
class TellingGpu final : public Backend {
 public:
  std::string name() const override { return "telling"; }
  int device_count() const override { return 3; }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions&) override {
    return unimplemented("no ranks");
  }
  Result<DeviceLoad> device_load(int device) override {
    if (device == 1) return internal_error("lost");
    DeviceLoad load{"GPU-" + std::to_string(device), 143e9, 2.5e9, 0.75, 350, 700, 1000};
    load.energy_joules += 5 * looks_++;
    if (device == 2) load.power_watts = load.energy_joules = -1;
    return load;
  }

 private:
  int looks_ = 0;
};

std::string scrape(Backend* gpu) {
  const auto repository =
      std::make_shared<ModelRepository>(RepositoryOptions(), nullptr, make_silent_log());
  ServiceOptions options;
  options.gpu = gpu;
  const InferenceService service(repository, options);
  MetricsOptions content;
  content.interval = std::chrono::milliseconds(0);
  MetricsCollector collector(service, content);
  return collector.scrape();
}

TEST(GpuMetrics, CardsTellUnderTritonsNames) {
  TellingGpu gpu;
  const std::string text = scrape(&gpu);
  EXPECT_THAT(text, HasSubstr("nv_gpu_utilization{gpu_uuid=\"GPU-0\"} 0.75"));
  EXPECT_THAT(text, HasSubstr("nv_gpu_memory_total_bytes{gpu_uuid=\"GPU-0\"} 143000000000"));
  EXPECT_THAT(text, HasSubstr("nv_gpu_memory_used_bytes{gpu_uuid=\"GPU-0\"} 2500000000"));
  EXPECT_THAT(text, HasSubstr("nv_gpu_power_usage{gpu_uuid=\"GPU-0\"} 350"));
  EXPECT_THAT(text, HasSubstr("nv_gpu_power_limit{gpu_uuid=\"GPU-0\"} 700"));
  // Two looks at device 0 in each sample of both that answer: 2 x 5 J.
  EXPECT_THAT(text, HasSubstr("nv_energy_consumption{gpu_uuid=\"GPU-0\"} 10"));
  EXPECT_THAT(text, HasSubstr("# TYPE nv_energy_consumption counter"));
  EXPECT_THAT(text, HasSubstr("nv_gpu_utilization{gpu_uuid=\"GPU-2\"} 0.75"));
  EXPECT_THAT(text, Not(HasSubstr("nv_gpu_power_usage{gpu_uuid=\"GPU-2\"}")));
  EXPECT_THAT(text, Not(HasSubstr("nv_energy_consumption{gpu_uuid=\"GPU-2\"}")));
}

TEST(GpuMetrics, WithoutCardsThereAreNone) {
  EXPECT_THAT(scrape(nullptr), Not(HasSubstr("nv_gpu")));
  EXPECT_THAT(scrape(nullptr), HasSubstr("nv_cpu_utilization"));
}

}  // namespace
}  // namespace tutti::server
