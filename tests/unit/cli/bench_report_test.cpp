#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/printer.h"
#include "ops/lowering.h"

namespace tutti::cli {
namespace {

using ::testing::HasSubstr;

class BenchReport : public ::testing::Test {
 protected:
  BenchReport() {
    LoweringRegistry lowerings;
    register_all_ops(&ops_, &lowerings);
    plan_.mesh = *Mesh::parse("cp=2");
    plan_.main = *parse_graph(R"(graph (%x: f32[t, 8]) {
      %w = constant f32[8, 4] data
      %y = MatMul(%x, %w)
      %z = AllReduce(%y) {axis = "cp", ranks = 2, op = "sum"}
      return %z
    })",
                              ops_);
    result_.backend = "a machine";
    result_.seconds = {0.003, 0.001, 0.002};
    result_.profiled_runs = 2;
    result_.flops_ceiling = 1e6;
    result_.memory = {{0, 100, 0, 128}, {1, 100, 0, 128}};
    result_.sent_bytes = {6400, 0};
    for (int rank = 0; rank < 2; ++rank) {
      // Two runs of 1 ms and 0.5 ms and 0.25 ms.
      result_.profiles.push_back(
          {{"(inputs)", 2, 0.0005}, {"MatMul", 2, 0.002}, {"AllReduce", 2, 0.001}});
      const double start = 100 + rank * 0.0001;
      result_.timelines.push_back({{"(inputs)", "(inputs)", start, 0.00025},
                                   {"MatMul", "MatMul 'y'", start + 0.00025, 0.001},
                                   {"AllReduce", "AllReduce 'z'", start + 0.00125, 0.0005}});
    }
  }

  OpRegistry ops_;
  Plan plan_;
  BenchResult result_;
};

TEST_F(BenchReport, SharesTheTimeOutByKindOfWork) {
  const nlohmann::json report = bench_json(result_, plan_, ops_, {{"t", 10}});
  EXPECT_EQ(report["median_s"], 0.002);
  EXPECT_EQ(report["runs"], 3);
  const nlohmann::json& rows = report["classes"][1];
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["class"], "products");
  EXPECT_DOUBLE_EQ(rows[0]["seconds"], 0.001);
  EXPECT_DOUBLE_EQ(rows[0]["flops"], 2 * 10 * 8 * 4);
  EXPECT_NEAR(rows[0]["flops_per_second"].get<double>(), 640e3, 1);
  EXPECT_EQ(rows[1]["class"], "exchanges");
  EXPECT_EQ(rows[2]["class"], "inputs and outputs");
  double shares = 0;
  for (const auto& row : rows) shares += row["share"].get<double>();
  EXPECT_NEAR(shares, 1, 1e-12);
  // 6400 bytes in half a millisecond.
  EXPECT_NEAR(report["exchange"][0]["bytes_per_second"].get<double>(), 12.8e6, 1);
  // The other rank began 0.1 ms later.
  EXPECT_NEAR(report["idle_s"][0].get<double>(), 0.0001, 1e-9);
}

TEST_F(BenchReport, TheTableNamesRanksClassesAndTheCeiling) {
  const std::string table = bench_table(bench_json(result_, plan_, ops_, {{"t", 10}}));
  EXPECT_THAT(table, HasSubstr("2 ranks"));
  EXPECT_THAT(table, HasSubstr("median 2.000 ms (1.000 to 3.000), 3 runs"));
  EXPECT_THAT(table, HasSubstr("rank 1: "));
  EXPECT_THAT(table, HasSubstr("products"));
  // 640 FLOP of the product and 40 of the sum in 2 ms, of 1 MFLOP/s.
  EXPECT_THAT(table, HasSubstr("34.0% of"));
}

TEST_F(BenchReport, TheTraceIsWhatPerfettoReads) {
  const nlohmann::json trace = nlohmann::json::parse(bench_trace(result_.timelines, ops_).dump());
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  int complete = 0;
  std::map<int, double> end_of;
  for (const auto& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    ASSERT_TRUE(event.at("pid").is_number_integer() && event.at("tid").is_number_integer());
    if (phase == "M") {
      EXPECT_TRUE(event.at("args").at("name").is_string());
      continue;
    }
    ASSERT_EQ(phase, "X");
    ++complete;
    EXPECT_TRUE(event.at("name").is_string() && event.at("cat").is_string());
    EXPECT_GE(event.at("dur").get<double>(), 0);
    // One after the other on a rank, the first at 0.
    double& end = end_of.try_emplace(event.at("tid").get<int>(), 0.0).first->second;
    EXPECT_GE(event.at("ts").get<double>(), end - 0.01);
    end = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  EXPECT_EQ(complete, 6);
  EXPECT_EQ(end_of.size(), 2U);
  EXPECT_NEAR(end_of[0], 1750, 0.1);
  EXPECT_NEAR(end_of[1], 1850, 0.1);
  EXPECT_EQ(trace["traceEvents"][2]["ts"], 0.0);
}

TEST_F(BenchReport, EveryOperatorHasAClass) {
  EXPECT_EQ(kernel_class("Linear", ops_), "products");
  EXPECT_EQ(kernel_class("Halo", ops_), "exchanges");
  EXPECT_EQ(kernel_class("ShardSlice", ops_), "copies");
  EXPECT_EQ(kernel_class("RMSNormalization", ops_), "pointwise and norms");
  EXPECT_EQ(kernel_class("(outputs)", ops_), "inputs and outputs");
}

}  // namespace
}  // namespace tutti::cli
