// ONNX's Einsum, lowered and folded over constants, against sums over all labels in double.
#include <gtest/gtest.h>

#include <map>

#include "backends/cpu/evaluator.h"
#include "node_runner.h"
#include "ops/families.h"

namespace tutti::cpu {
namespace {

Result<Tensor> einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  OpRegistry ops;
  LoweringRegistry lowerings;
  register_all_ops(&ops, &lowerings);
  CpuEvaluator evaluator;
  Graph graph;
  GraphBuilder builder(&graph, &ops, &evaluator);
  std::vector<Value*> values;
  for (const Tensor& operand : operands) values.push_back(builder.constant(operand));
  LoweringContext context(&builder, "Einsum", 18, values, {{"equation", equation}}, 1);
  TUTTI_RETURN_IF_ERROR(lowerings.find("", "Einsum", 18)->lower(context));
  TUTTI_RETURN_IF_ERROR(builder.status());
  if (!context.outputs[0]->is_constant()) return internal_error("the result did not fold");
  return context.outputs[0]->constant();
}

// Terms and output spelt out, one letter a dimension. A dimension of size 1 broadcasts.
std::vector<double> sums(const std::vector<std::string>& terms, const std::string& output,
                         const std::vector<Tensor>& operands) {
  std::map<char, std::int64_t> sizes;
  std::string labels = output;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    for (std::size_t d = 0; d < terms[i].size(); ++d) {
      std::int64_t& size = sizes[terms[i][d]];
      size = std::max(size, operands[i].dims()[d]);
      if (labels.find(terms[i][d]) == std::string::npos) labels.push_back(terms[i][d]);
    }
  }
  std::int64_t outputs = 1;
  std::int64_t steps = 1;
  for (const char label : labels) steps *= sizes[label];
  for (const char label : output) outputs *= sizes[label];
  std::vector<double> result(static_cast<std::size_t>(outputs), 0.0);
  std::vector<std::vector<double>> elements;
  for (const Tensor& operand : operands) elements.push_back(operand.to_doubles());
  for (std::int64_t step = 0; step < steps; ++step) {
    std::map<char, std::int64_t> at;
    std::int64_t rest = step;
    for (std::size_t i = labels.size(); i-- > 0; rest /= sizes[labels[i]])
      at[labels[i]] = rest % sizes[labels[i]];
    double value = 1;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      std::int64_t index = 0;
      for (std::size_t d = 0; d < terms[i].size(); ++d) {
        const std::int64_t size = operands[i].dims()[d];
        index = index * size + (size == 1 ? 0 : at[terms[i][d]]);
      }
      value *= elements[i][static_cast<std::size_t>(index)];
    }
    result[static_cast<std::size_t>(step / (steps / outputs))] += value;
  }
  return result;
}

void expect_einsum(const std::string& equation, const std::vector<Dims>& shapes,
                   const std::vector<std::string>& terms, const std::string& output) {
  std::vector<Tensor> operands;
  for (const Dims& shape : shapes)
    operands.push_back(random_tensor(shape, static_cast<unsigned>(operands.size())));
  const Result<Tensor> result = einsum(equation, operands);
  ASSERT_TRUE(result.ok()) << equation << ": " << result.status().to_string();
  EXPECT_LT(difference(*result, sums(terms, output, operands)), 1e-5) << equation;
}

TEST(Einsum, MultipliesSumsAndPermutes) {
  expect_einsum("ij,jk->ik", {{3, 4}, {4, 5}}, {"ij", "jk"}, "ik");
  expect_einsum("bhsd,bhtd->bhst", {{2, 3, 4, 5}, {2, 3, 6, 5}}, {"bhsd", "bhtd"}, "bhst");
  expect_einsum("bhst,bthd->bshd", {{2, 3, 4, 5}, {2, 5, 3, 6}}, {"bhst", "bthd"}, "bshd");
  expect_einsum("ijk->kji", {{2, 3, 4}}, {"ijk"}, "kji");
  expect_einsum("ijk->j", {{2, 3, 4}}, {"ijk"}, "j");
  expect_einsum("ij->", {{3, 4}}, {"ij"}, "");
  expect_einsum("i,j->ij", {{3}, {4}}, {"i", "j"}, "ij");
  expect_einsum("i,i->", {{5}, {5}}, {"i", "i"}, "");
  expect_einsum("abc,abd,ae->ecd", {{2, 3, 4}, {2, 3, 5}, {2, 6}}, {"abc", "abd", "ae"}, "ecd");
  expect_einsum("ijl,kl->ijk", {{2, 3, 4}, {5, 4}}, {"ijl", "kl"}, "ijk");
  expect_einsum("ijxy,kxy->kij", {{2, 3, 4, 5}, {6, 4, 5}}, {"ijxy", "kxy"}, "kij");
  expect_einsum("ijx,k->jk", {{2, 3, 4}, {5}}, {"ijx", "k"},
                "jk");  // sums that one operand has alone
}

TEST(Einsum, TakesTheImplicitOutput) {
  expect_einsum("ba", {{3, 4}}, {"ba"}, "ab");
  expect_einsum("ij, jk", {{3, 4}, {4, 5}}, {"ij", "jk"}, "ik");
}

TEST(Einsum, BroadcastsEllipses) {
  expect_einsum("...ij,...jk->...ik", {{2, 3, 4, 5}, {2, 3, 5, 6}}, {"xyij", "xyjk"}, "xyik");
  expect_einsum("...ij,jk->...ik", {{2, 3, 4, 5}, {5, 6}}, {"xyij", "jk"}, "xyik");
  expect_einsum("...i,...i->...", {{2, 1, 4}, {3, 4}}, {"xyi", "yi"}, "xy");
  expect_einsum("i...->...i", {{2, 3, 4}}, {"ixy"}, "xyi");
}

TEST(Einsum, BroadcastsSizesOfOne) {
  expect_einsum("ij,jk->ik", {{3, 1}, {4, 5}}, {"ij", "jk"}, "ik");
  expect_einsum("bij,bjk->bik", {{1, 3, 4}, {2, 4, 5}}, {"bij", "bjk"}, "bik");
}

TEST(Einsum, TakesDiagonals) {
  expect_einsum("ii->i", {{4, 4}}, {"ii"}, "i");
  expect_einsum("ii", {{4, 4}}, {"ii"}, "");
  expect_einsum("bii->bi", {{2, 3, 3}}, {"bii"}, "bi");
  expect_einsum("iji,j->i", {{3, 4, 3}, {4}}, {"iji", "j"}, "i");
}

TEST(Einsum, NamesWhatIsWrong) {
  const auto error = [](const std::string& equation, const std::vector<Dims>& shapes) {
    std::vector<Tensor> operands;
    for (const Dims& shape : shapes) operands.push_back(random_tensor(shape, 1));
    return einsum(equation, operands).status().message();
  };
  EXPECT_EQ(error("ij,jk->ik", {{3, 4}}),
            "attribute 'equation': 'ij,jk->ik' has 2 terms for 1 inputs");
  EXPECT_EQ(error("ijk->ik", {{3, 4}}),
            "attribute 'equation': term 0 of 'ijk->ik' does not fit input 0, f32[3, 4]");
  EXPECT_EQ(error("ij->ik", {{3, 4}}),
            "attribute 'equation': output of 'ij->ik' has a label twice or one that no input has");
  EXPECT_EQ(error("ij,jk->ik", {{3, 4}, {5, 6}}), "input 1 is f32[5, 6]: dimension 0 should be 4");
  EXPECT_EQ(error("i1->i", {{3, 4}}),
            "attribute 'equation': term 'i1' has '1' where a letter or one '...' was expected");
}

}  // namespace
}  // namespace tutti::cpu
