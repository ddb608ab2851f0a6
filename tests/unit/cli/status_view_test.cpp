#include "cli/status_view.h"

#include <gmock/gmock.h>

namespace tutti::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json document(double time_ms, long success, double run_us, double exchange_us) {
  json made = json::parse(R"({
    "server": {"version": "1.2.3", "ready": true, "uptime_seconds": 7384.5},
    "machine": {"cpu_utilization": 0.25, "memory_total_bytes": 4096, "memory_used_bytes": 1536},
    "gpus": [{"uuid": "GPU-1", "utilization": 0.5, "memory_total_bytes": 2048,
              "memory_used_bytes": 1024, "power_watts": null}],
    "models": [{"name": "m", "version": "2", "state": "READY", "reason": "", "ready": true,
                "pending": 3, "fail": 1, "latency": {"buckets": [[1000.0, 90], [4000.0, 0]]},
                "instances": [{"rebuilds": 0, "imbalance": 0.125,
                               "ranks": [{"memory_bytes": 2048}]}]}]})");
  made["server"]["time_ms"] = time_ms;
  json& model = made["models"][0];
  model["success"] = success;
  model["latency"]["buckets"][1][1] = success - 90;
  model["instances"][0]["ranks"][0]["run_us"] = run_us;
  model["instances"][0]["ranks"][0]["exchange_us"] = exchange_us;
  return made;
}

std::string render(const json& now, const json& before, StatusStyle style = {}) {
  auto text = render_status(now, before, style);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : "";
}

TEST(StatusView, RatesAndLatenciesAreOfTheTimeBetween) {
  // In two seconds 20 requests more, all in the slower bucket; half of the time busy.
  const std::string text =
      render(document(5000, 120, 1.5e6, 0.5e6), document(3000, 100, 0.5e6, 0.25e6));
  EXPECT_THAT(text, HasSubstr("tutti 1.2.3  ready  up 2 h 3 min"));
  EXPECT_THAT(text, HasSubstr("1.5 KiB of 4.0 KiB"));
  EXPECT_THAT(text, HasSubstr("GPU-1   50 %   memory 1.0 KiB of 2.0 KiB\n"));
  EXPECT_THAT(text, testing::ContainsRegex("m +2 READY +3 +10\\.0 +4\\.00 +4\\.00 +120 +1\n"));
  EXPECT_THAT(text, HasSubstr("imbalance 12 %"));
  EXPECT_THAT(text, HasSubstr(" 50 % busy,  25 % of it exchanging"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(StatusView, WithoutAnEarlierLookThereAreNoRates) {
  const std::string text = render(document(5000, 100, 1, 0), json());
  EXPECT_THAT(text, testing::ContainsRegex("READY +3 +- +1\\.00 +4\\.00 +100 +1\n"));
}

TEST(StatusView, CountersOfAModelThatWasLoadedAnewAreNotCompared) {
  const std::string text = render(document(5000, 95, 1, 0), document(3000, 100, 2, 0));
  EXPECT_THAT(text, testing::ContainsRegex("READY +3 +- "));
}

TEST(StatusView, WhatAServerSaysDoesNotSteerTheTerminal) {
  json now = document(5000, 100, 1, 0);
  now["models"][0]["name"] = "\x1b[2Jm";
  now["models"][0]["reason"] = "bad\x07\nworse";
  const std::string text = render(now, json());
  EXPECT_THAT(text, HasSubstr("?[2Jm"));
  EXPECT_THAT(text, HasSubstr("bad??worse"));
}

TEST(StatusView, AnotherDocumentIsAnError) {
  for (const json& other : {json(), json::object(), json::array(), json("text"), json(7)}) {
    EXPECT_EQ(render_status(other, json(), {}).status().code(), StatusCode::kInvalidArgument);
  }
  json now = document(5000, 100, 1, 0);
  now["models"][0]["pending"] = "three";
  EXPECT_EQ(render_status(now, json(), {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti::cli
