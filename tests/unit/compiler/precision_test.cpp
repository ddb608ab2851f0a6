// --precision: what becomes 16 bit, and what stays f32.
#include <cmath>

#include "base/half.h"
#include "compiler_fixture.h"

namespace tutti {
namespace {

class PrecisionTest : public CompilerTest {
 protected:
  std::unique_ptr<Graph> converted(std::string_view text, DType io = DType::kUndefined,
                                   DType precision = DType::kBFloat16) {
    auto graph = parse(text);
    CompileOptions with = options();
    with.precision = precision;
    with.io_precision = io;
    const Status status = convert_precision(*graph, with);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(graph->verify().ok());
    return graph;
  }

  static DType dtype_of(const Graph& graph, std::string_view value) {
    const Value* found = graph.find_value(value);
    EXPECT_NE(found, nullptr) << value << " is gone";
    return found == nullptr ? DType::kUndefined : found->dtype();
  }
};

TEST_F(PrecisionTest, NothingChangesUnlessAsked) {
  const auto graph = parse("graph @g (%x: f32[4]) {\n %y = Neg(%x)\n return %y\n}");
  ASSERT_TRUE(convert_precision(*graph, options()).ok());
  EXPECT_EQ(dtype_of(*graph, "y"), DType::kFloat32);
}

constexpr std::string_view kFeatures = R"(graph @g (%x: f32[b, t, 8]) {
    %w = constant f32[8, 8] data
    %scale = constant f32[8] data
    %n = RMSNormalization(%x, %scale) {axis = 2, epsilon = 0.001}
    %y = MatMul(%n, %w)
    %z = Add(%x, %y)
    return %z
  })";

TEST_F(PrecisionTest, ProductsNormsAndWhatTheyFeedAreNarrowInputsAndOutputsAreNot) {
  const auto graph = converted(kFeatures);
  for (const char* value : {"n", "y", "w", "scale"}) {
    EXPECT_EQ(dtype_of(*graph, value), DType::kBFloat16) << value;
  }
  EXPECT_EQ(dtype_of(*graph, "x"), DType::kFloat32);
  EXPECT_EQ(dtype_of(*graph, "z"), DType::kFloat32);
  EXPECT_EQ(count_nodes(*graph, "Cast"), 2) << "one of the input, one of the output";
  EXPECT_EQ(find_node(*graph, "Add")->output()->dtype(), DType::kBFloat16);
}

TEST_F(PrecisionTest, InputsAndOutputsChangeWhereThatIsAskedFor) {
  const auto graph = converted(kFeatures, DType::kBFloat16);
  EXPECT_EQ(dtype_of(*graph, "x"), DType::kBFloat16);
  EXPECT_EQ(dtype_of(*graph, "z"), DType::kBFloat16);
  EXPECT_EQ(count_nodes(*graph, "Cast"), 0);
}

TEST_F(PrecisionTest, TimeStepsAndTheirWavesStayUntilTheirProduct) {
  const auto graph = converted(R"(graph @g (%t: f32[b]) {
    %frequencies = constant f32[4] data
    %w = constant f32[8, 8] data
    %column = Reshape(%t) {shape = dims[b, 1]}
    %angle = Mul(%column, %frequencies)
    %s = Sin(%angle)
    %c = Cos(%angle)
    %waves = Concat(%s, %c) {axis = 1}
    %y = MatMul(%waves, %w)
    return %y
  })",
                               DType::kBFloat16);
  for (const char* value : {"t", "angle", "s", "c", "waves"}) {
    EXPECT_EQ(dtype_of(*graph, value), DType::kFloat32) << value;
  }
  EXPECT_EQ(dtype_of(*graph, "y"), DType::kBFloat16);
}

TEST_F(PrecisionTest, RotaryTablesOfPlacesStayUntilTheyMeetFeatures) {
  const auto graph =
      converted(R"(graph @g (%x: f32[b, t, 8], %places: i64[t, 1], %real: f32[t, 1]) {
    %frequencies = constant f32[1, 8] data
    %w = constant f32[8, 8] data
    %p = Cast(%places) {to = "f32"}
    %sum = Add(%p, %real)
    %angle = MatMul(%sum, %frequencies)
    %cos = Cos(%angle)
    %y = MatMul(%x, %w)
    %z = Mul(%y, %cos)
    return %z
  })");
  for (const char* value : {"p", "real", "angle", "cos"}) {
    EXPECT_EQ(dtype_of(*graph, value), DType::kFloat32) << value;
  }
  EXPECT_EQ(find_node(*graph, "Mul")->output()->dtype(), DType::kBFloat16);
}

TEST_F(PrecisionTest, StatisticsAndWhatOnlyTheyReadStay) {
  const auto graph = converted(R"(graph @g (%x: f32[b, 8]) {
    %w = constant f32[8, 8] data
    %y = MatMul(%x, %w)
    %square = Mul(%y, %y)
    %mean = Reduce(%square) {kind = "mean", axes = [1], keepdims = 1}
    %root = Sqrt(%mean)
    %top = Reduce(%y) {kind = "max", axes = [1], keepdims = 1}
    %scaled = Div(%y, %root)
    %z = Mul(%scaled, %top)
    return %z
  })");
  for (const char* value : {"square", "mean", "root"}) {
    EXPECT_EQ(dtype_of(*graph, value), DType::kFloat32) << value;
  }
  for (const char* value : {"y", "top", "scaled"}) {
    EXPECT_EQ(dtype_of(*graph, value), DType::kBFloat16) << value;
  }
}

TEST_F(PrecisionTest, NumbersLookedUpStayRowsDoNot) {
  const auto graph = converted(R"(graph @g (%ids: i64[b], %x: f32[b, 8]) {
    %table = constant f32[100, 8] data
    %numbers = constant f32[100] data
    %rows = Gather(%table, %ids) {axis = 0}
    %sigma = Gather(%numbers, %ids) {axis = 0}
    %more = Add(%rows, %x)
    return %more, %sigma
  })");
  EXPECT_EQ(dtype_of(*graph, "rows"), DType::kBFloat16);
  EXPECT_EQ(dtype_of(*graph, "sigma"), DType::kFloat32);
}

TEST_F(PrecisionTest, IndexesAndDecisionsAreUntouched) {
  const auto graph = converted(R"(graph @g (%x: f32[b, 8], %ids: i64[b]) {
    %w = constant f32[8, 8] data
    %y = MatMul(%x, %w)
    %best = ArgMax(%y) {axis = 1, keepdims = 0}
    %same = Equal(%best, %ids)
    return %best, %same
  })");
  EXPECT_EQ(dtype_of(*graph, "best"), DType::kInt64);
  EXPECT_EQ(dtype_of(*graph, "same"), DType::kBool);
}

// Masks often hold the lowest fp32: 16 bit makes it its own lowest, not minus infinity.
TEST_F(PrecisionTest, FiniteConstantsStayFinite) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const auto graph = converted(R"(graph @g (%x: f32[1, 3]) {
      %mask = constant f32[1, 3] [-3.4028235e38, -inf, 1.5]
      %w = constant f32[3, 3] data
      %y = MatMul(%x, %w)
      %z = Add(%y, %mask)
      return %z
    })",
                                 DType::kUndefined, dtype);
    const Value* mask = graph->find_value("mask");
    ASSERT_EQ(mask->dtype(), dtype);
    const std::vector<double> numbers = mask->constant().to_doubles();
    EXPECT_TRUE(std::isfinite(numbers[0]) && numbers[0] < -6e4) << numbers[0];
    EXPECT_TRUE(std::isinf(numbers[1]));
    EXPECT_EQ(numbers[2], 1.5);
  }
}

TEST_F(PrecisionTest, LargeWeightsRoundToNearestOnEveryThread) {
  const auto graph = parse(R"(graph @g (%x: f32[1, 4]) {
    %w = constant f32[4, 3000001] data
    %y = MatMul(%x, %w)
    return %y
  })");
  const Value* before = graph->find_value("w");
  const Tensor wide = before->constant();
  float* numbers = Tensor(wide).mutable_data_as<float>();
  for (std::int64_t i = 0; i < wide.element_count(); ++i) numbers[i] = 1.0F + i * 1e-7F;
  CompileOptions with = options();
  with.precision = DType::kBFloat16;
  ASSERT_TRUE(convert_precision(*graph, with).ok());
  const Tensor narrow = graph->find_value("w")->constant();
  ASSERT_EQ(narrow.dtype(), DType::kBFloat16);
  for (std::int64_t i = 0; i < wide.element_count(); ++i) {
    ASSERT_EQ(narrow.data_as<BFloat16>()[i].bits, float_to_bfloat16_bits(numbers[i])) << i;
  }
}

TEST_F(PrecisionTest, WhatTheModelItselfKeepsWideStays) {
  const auto graph = converted(R"(graph @g (%x: bf16[b, 8]) {
    %half = constant f32[] [0.5]
    %wide = Cast(%x) {to = "f32"}
    %y = Mul(%wide, %half)
    %z = Cast(%y) {to = "bf16"}
    return %z
  })");
  EXPECT_EQ(dtype_of(*graph, "y"), DType::kFloat32);
}

}  // namespace
}  // namespace tutti
