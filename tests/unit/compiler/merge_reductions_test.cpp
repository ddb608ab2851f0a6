// Small sums over ranks that do not need each other travel as one.
#include "compiler/passes.h"
#include "compiler_fixture.h"

namespace tutti {
namespace {

class MergeReductionsTest : public CompilerTest {
 protected:
  // Returns how many AllReduces are left.
  int merged(std::string_view text) {
    const auto graph = parse(text);
    const Status status = merge_reductions(*graph, options("cp=4"));
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(graph->verify().ok()) << graph->verify().to_string();
    return count_nodes(*graph, "AllReduce");
  }
};

TEST_F(MergeReductionsTest, WhatReadsTheFirstSumsWaitsForTheSecond) {
  expect_pass(merge_reductions,
              R"(graph @g (%k: f32[4, 12, 1], %q: f32[4, 12, t], %v: f32[4, 12, 12]) {
    %kk: f32[4, 12, 1] = AllReduce(%k) {axis = "cp", ranks = 4, op = "sum"}
    %z: f32[4, 12, t] = Mul(%kk, %q)
    %s: f32[4, 12, 12] = Relu(%v)
    %vv: f32[4, 12, 12] = AllReduce(%s) {axis = "cp", ranks = 4, op = "sum"}
    %y: f32[4, 12, t] = MatMul(%vv, %z)
    return %y
  })",
              R"(graph @g (%k: f32[4, 12, 1], %q: f32[4, 12, t], %v: f32[4, 12, 12]) {
    %s: f32[4, 12, 12] = Relu(%v)
    %k1: f32[48] = Reshape(%k) {shape = dims[48]}
    %s1: f32[576] = Reshape(%s) {shape = dims[576]}
    %row: f32[624] = Concat(%k1, %s1) {axis = 0}
    %sums: f32[624] = AllReduce(%row) {axis = "cp", ranks = 4, op = "sum"}
    %a, %b = Split(%sums) {axis = 0, sizes = dims[48, 576]}
    %kk: f32[4, 12, 1] = Reshape(%a) {shape = dims[4, 12, 1]}
    %vv: f32[4, 12, 12] = Reshape(%b) {shape = dims[4, 12, 12]}
    %z: f32[4, 12, t] = Mul(%kk, %q)
    %y: f32[4, 12, t] = MatMul(%vv, %z)
    return %y
  })");
}

TEST_F(MergeReductionsTest, SumsThatNeedEachOtherStay) {
  EXPECT_EQ(merged(R"(graph @g (%x: f32[8]) {
    %a: f32[8] = AllReduce(%x) {axis = "cp", ranks = 4, op = "sum"}
    %d: f32[8] = Sub(%x, %a)
    %b: f32[8] = AllReduce(%d) {axis = "cp", ranks = 4, op = "sum"}
    return %b
  })"),
            2);
}

TEST_F(MergeReductionsTest, OtherTypesAxesAndReductionsStayApart) {
  EXPECT_EQ(merged(R"(graph @g (%x: f32[8], %h: bf16[8]) {
    %a: f32[8] = AllReduce(%x) {axis = "cp", ranks = 4, op = "sum"}
    %b: bf16[8] = AllReduce(%h) {axis = "cp", ranks = 4, op = "sum"}
    %c: f32[8] = AllReduce(%x) {axis = "tp", ranks = 2, op = "sum"}
    %d: f32[8] = AllReduce(%x) {axis = "cp", ranks = 4, op = "max"}
    return %a, %b, %c, %d
  })"),
            4);
}

// 16 MB: the copies would take longer than the exchange that is saved.
TEST_F(MergeReductionsTest, LargeSumsTravelByThemselves) {
  EXPECT_EQ(merged(R"(graph @g (%x: f32[2048, 2048], %y: f32[2048, 2048]) {
    %a: f32[2048, 2048] = AllReduce(%x) {axis = "cp", ranks = 4, op = "sum"}
    %b: f32[2048, 2048] = AllReduce(%y) {axis = "cp", ranks = 4, op = "sum"}
    return %a, %b
  })"),
            2);
}

// A norm of queries and one of keys, each of its own sum of squares.
TEST_F(MergeReductionsTest, SizesMayBeSymbolic) {
  EXPECT_EQ(merged(R"(graph @g (%x: f32[b, t, 1], %y: f32[b, s, 1]) {
    %a: f32[b, t, 1] = AllReduce(%x) {axis = "cp", ranks = 4, op = "sum"}
    %b: f32[b, s, 1] = AllReduce(%y) {axis = "cp", ranks = 4, op = "sum"}
    return %a, %b
  })"),
            1);
}

}  // namespace
}  // namespace tutti
