#include "runtime/shape_binding.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

Dim sym(const char* name) { return Dim::symbol(name); }

Plan plan_with(std::vector<PlanTensor> inputs) {
  Plan plan;
  plan.inputs = std::move(inputs);
  return plan;
}

TensorDesc f32(Dims dims) { return {DType::kFloat32, std::move(dims)}; }

std::string error_of(const Plan& plan, std::vector<TensorDesc> inputs) {
  const auto binding = bind_shapes(plan, std::move(inputs));
  EXPECT_TRUE(binding.ok() || binding.status().code() == StatusCode::kInvalidArgument);
  return binding.status().message();
}

TEST(BindShapes, BindsSymbolsAndSizesOutputs) {
  Plan plan = plan_with({{"x", DType::kFloat32, {sym("b"), sym("t"), 64}}});
  plan.outputs = {{"y", DType::kFloat16, {sym("b"), sym("t") * 2}}};
  const auto binding = bind_shapes(plan, {f32({2, 5, 64})});
  ASSERT_TRUE(binding.ok()) << binding.status().message();
  EXPECT_EQ((*binding)->symbols.at("b"), 2);
  EXPECT_EQ((*binding)->symbols.at("t"), 5);
  EXPECT_EQ((*binding)->outputs[0], (TensorDesc{DType::kFloat16, {2, 10}}));
}

TEST(BindShapes, SolvesLinearExpressions) {
  const Plan plan = plan_with({{"x", DType::kFloat32, {sym("h") * 2 + 1, sym("h") * sym("w")}}});
  const auto binding = bind_shapes(plan, {f32({7, 12})});
  ASSERT_TRUE(binding.ok()) << binding.status().message();
  EXPECT_EQ((*binding)->symbols.at("h"), 3);
  EXPECT_EQ((*binding)->symbols.at("w"), 4);
  EXPECT_EQ(error_of(plan, {f32({8, 12})}),
            "input 'x': shape [8,12] does not fit [2*h+1,h*w] at dimension 0");
}

TEST(BindShapes, NamesInputShapeAndDimension) {
  const Plan plan = plan_with({{"latents", DType::kFloat32, {1, sym("t"), 64}}});
  EXPECT_EQ(error_of(plan, {f32({1, 16, 8})}),
            "input 'latents': shape [1,16,8] does not fit [1,t,64] at dimension 2");
  EXPECT_EQ(error_of(plan, {f32({1, 16})}),
            "input 'latents': shape [1,16] does not fit [1,t,64]: 2 dimensions, expected 3");
  EXPECT_EQ(error_of(plan, {f32({1, -1, 64})}),
            "input 'latents': shape [1,-1,64] does not fit [1,t,64] at dimension 1");
  EXPECT_EQ(error_of(plan, {{DType::kFloat16, {1, 16, 64}}}),
            "input 'latents': element type f16, expected f32");
  EXPECT_EQ(error_of(plan, {}), "0 inputs given, expected 1");
}

TEST(BindShapes, SymbolsMustAgreeBetweenInputs) {
  const Plan plan =
      plan_with({{"x", DType::kFloat32, {sym("b"), 4}}, {"mask", DType::kFloat32, {sym("b") * 2}}});
  EXPECT_EQ(error_of(plan, {f32({2, 4}), f32({6})}),
            "input 'mask': shape [6] does not fit [2*b] at dimension 0: expected 4");
  const Plan same =
      plan_with({{"x", DType::kFloat32, {sym("b")}}, {"y", DType::kFloat32, {sym("b")}}});
  EXPECT_EQ(error_of(same, {f32({2}), f32({3})}),
            "input 'y': shape [3] does not fit [b] at dimension 0: b is 2 elsewhere");
}

TEST(BindShapes, KeepsToTheRangesOfThePlan) {
  Plan plan = plan_with({{"x", DType::kFloat32, {sym("b"), 4}}});
  plan.dims["b"] = {1, 1, 8};
  EXPECT_TRUE(bind_shapes(plan, {f32({8, 4})}).ok());
  EXPECT_EQ(
      error_of(plan, {f32({9, 4})}),
      "input 'x': shape [9,4] does not fit [b,4] at dimension 0: b is 9, the plan takes 1 to 8");
  EXPECT_FALSE(bind_shapes(plan, {f32({0, 4})}).ok());
}

TEST(BindShapes, RefusesOutputsThatOverflow) {
  Plan plan = plan_with({{"x", DType::kFloat32, {sym("n")}}});
  plan.outputs = {{"y", DType::kFloat32, {sym("n"), sym("n"), sym("n")}}};
  EXPECT_FALSE(bind_shapes(plan, {f32({std::int64_t{1} << 40})}).ok());
}

TEST(ShapeBindings, GivesTheSameBindingForTheSameSizes) {
  const Plan plan = plan_with({{"x", DType::kFloat32, {sym("n")}}});
  ShapeBindings bindings(plan, 2);
  const auto of_size = [&](std::int64_t n) {
    const Tensor x = *Tensor::allocate(DType::kFloat32, {n});
    return *bindings.find_or_bind({&x, 1});
  };
  const auto three = of_size(3);
  const auto four = of_size(4);
  EXPECT_NE(three, four);
  EXPECT_EQ(of_size(3), three);
  (void)of_size(5);  // 4 was used longest ago and goes
  EXPECT_EQ(of_size(3), three);
  EXPECT_NE(of_size(4), four);
}

}  // namespace
}  // namespace tutti
