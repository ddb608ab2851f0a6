// RingAttention with real ranks against Attention on one: the same graph, compiled for a ring.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cpu/backend.h"
#include "base/half.h"
#include "compiler/compile.h"
#include "graph/printer.h"
#include "ops/lowering.h"
#include "runtime/instance.h"

namespace tutti {
namespace {

struct RingCase {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t queries = 7;
  std::int64_t keys = 7;
  std::string layout = "bhsd";
  std::string attributes = {};  // ", is_causal = 1"
  std::string mask = {};        // "bool[2, 1, 1, keys]"
  bool has_lengths = false;
  std::string dtype = "f32";
};

void PrintTo(const RingCase& c, std::ostream* out) {
  *out << c.heads << "/" << c.kv_heads << " heads, " << c.queries << " x " << c.keys << " "
       << c.layout << c.attributes << " " << c.mask << (c.has_lengths ? " lengths " : " ")
       << c.dtype;
}

class RingAttention : public ::testing::TestWithParam<RingCase> {
 protected:
  RingAttention() {
    LoweringRegistry lowerings;
    register_all_ops(&ops_, &lowerings);
  }

  // Two batch elements, head size 4, values of 6. q, k and v are not inputs themselves: something
  // must be computed on pieces.
  std::string text() const {
    const RingCase& c = GetParam();
    const auto sizes = [&](std::int64_t heads, std::int64_t tokens, int size) {
      return c.layout == "bshd" ? str_cat("[2, ", tokens, ", ", heads, ", ", size, "]")
                                : str_cat("[2, ", heads, ", ", tokens, ", ", size, "]");
    };
    std::string out =
        str_cat("graph @g (%q: ", c.dtype, sizes(c.heads, c.queries, 4), ", %k: ", c.dtype,
                sizes(c.kv_heads, c.keys, 4), ", %v: ", c.dtype, sizes(c.kv_heads, c.keys, 6));
    if (!c.mask.empty()) out += ", %mask: " + c.mask;
    if (c.has_lengths) out += ", %lengths: i64[2]";
    out += ") {\n %qn = Neg(%q)\n %kn = Neg(%k)\n %vn = Neg(%v)\n %y = Attention(%qn, %kn, %vn";
    if (c.has_lengths) {
      out += c.mask.empty() ? ", _, %lengths" : ", %mask, %lengths";
    } else if (!c.mask.empty()) {
      out += ", %mask";
    }
    return out + str_cat(") {layout = \"", c.layout, "\", scale = 0.7", c.attributes,
                         "}\n %z = Neg(%y)\n return %z\n}");
  }

  Plan plan(int ranks, AttentionExchange exchange) {
    auto graph = parse_graph(text(), ops_);
    EXPECT_TRUE(graph.ok()) << graph.status().to_string() << text();
    CompileOptions options;
    options.registry = &ops_;
    options.mesh = *Mesh::parse(str_cat("cp=", ranks));
    options.attention_exchange = exchange;
    options.detect_invariant_inputs = false;
    // Of one set of tokens each; of keys that are no queries ulysses would not split any.
    const int tokens = GetParam().layout == "bshd" ? 1 : 2;
    for (const char* name : {"kn", "vn"}) options.seeds.push_back({name, tokens, "cp"});
    auto compiled = compile(*std::move(graph), options);
    EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
    Plan plan;
    plan.mesh = options.mesh;
    plan.main = std::move(compiled->main);
    for (const auto& input : compiled->inputs) {
      plan.inputs.push_back({input.name, input.type.dtype, input.type.shape});
    }
    for (const auto& output : compiled->outputs) {
      plan.outputs.push_back({output.name, output.type.dtype, output.type.shape});
    }
    return plan;
  }

  static int count(const Plan& plan, std::string_view type) {
    int count = 0;
    for (const auto& node : plan.main->nodes()) count += node->type() == type ? 1 : 0;
    return count;
  }

  static TensorMap inputs(const Plan& plan) {
    TensorMap tensors;
    std::minstd_rand random(5);
    for (const PlanTensor& input : plan.inputs) {
      Tensor tensor = *Tensor::allocate(input.dtype, *to_constant(input.shape));
      const auto unit = [&] { return static_cast<double>(random()) / random.max() * 2 - 1; };
      for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
        switch (input.dtype) {
          case DType::kFloat32:
            tensor.mutable_data_as<float>()[i] = static_cast<float>(unit());
            break;
          case DType::kFloat16:
            tensor.mutable_data_as<Half>()[i] = Half(static_cast<float>(unit()));
            break;
          case DType::kBool: tensor.mutable_data_as<bool>()[i] = unit() > -0.4; break;
          // Of the first element all keys, of the second some.
          default: tensor.mutable_data_as<std::int64_t>()[i] = i == 0 ? 100 : 3;
        }
      }
      tensors.emplace(input.name, std::move(tensor));
    }
    return tensors;
  }

  static std::vector<double> run(Plan plan) {
    const auto backend = cpu::make_cpu_backend();
    const TensorMap given = inputs(plan);
    auto instance = Instance::load(std::move(plan), *backend);
    EXPECT_TRUE(instance.ok()) << instance.status().to_string();
    if (!instance.ok()) return {};
    auto outputs = (*instance)->infer(given);
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? outputs->begin()->second.to_doubles() : std::vector<double>();
  }

  OpRegistry ops_;
};

TEST_P(RingAttention, EqualsAttentionOnOneRank) {
  const std::vector<double> right = run(plan(1, AttentionExchange::kAuto));
  ASSERT_FALSE(right.empty());
  double largest = 0;
  for (const double x : right) largest = std::max(largest, std::abs(x));
  const double tolerance = GetParam().dtype == "f32" ? 1e-5 : 2e-3;
  for (const int ranks : {2, 3, 5, 8}) {
    Plan ring = plan(ranks, AttentionExchange::kRing);
    ASSERT_EQ(count(ring, "RingAttention"), 1) << print(*ring.main);
    ASSERT_EQ(count(ring, "Attention"), 0);
    const std::vector<double> found = run(std::move(ring));
    ASSERT_EQ(found.size(), right.size());
    for (std::size_t i = 0; i < right.size(); ++i) {
      ASSERT_NEAR(found[i], right[i], tolerance * largest) << ranks << " ranks, element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RingAttention,
    ::testing::Values(
        RingCase{}, RingCase{.heads = 4, .kv_heads = 2, .queries = 40, .keys = 40},
        RingCase{.heads = 3, .kv_heads = 1, .layout = "bshd"},
        // Fewer tokens than ranks.
        RingCase{.queries = 2, .keys = 2}, RingCase{.queries = 3, .keys = 2, .layout = "bshd"},
        RingCase{.queries = 3, .keys = 300}, RingCase{.queries = 300, .keys = 3},
        RingCase{.queries = 30, .keys = 30, .attributes = ", is_causal = 1"},
        RingCase{
            .queries = 4, .keys = 30, .attributes = ", is_causal = 1, causal_offset = dims[26]"},
        // Queries that see nothing.
        RingCase{
            .queries = 30, .keys = 9, .attributes = ", is_causal = 1, causal_offset = dims[3]"},
        RingCase{.heads = 2, .kv_heads = 2, .mask = "bool[2, 1, 1, 7]"},
        RingCase{.heads = 2, .mask = "f32[2, 7, 7]"}, RingCase{.mask = "bool[7, 1]"},
        RingCase{.queries = 30, .keys = 30, .attributes = ", is_causal = 1", .mask = "bool[1, 30]"},
        RingCase{.queries = 9, .keys = 20, .has_lengths = true},
        RingCase{.queries = 9,
                 .keys = 20,
                 .attributes = ", softcap = 1.5",
                 .mask = "f32[9, 20]",
                 .has_lengths = true},
        RingCase{.heads = 2, .queries = 20, .keys = 20, .dtype = "f16"}));

struct JoinedCase {
  std::string layout = "bhsd";
  std::string mask = {};
  bool has_lengths = false;
  std::int64_t first = 5;
  std::int64_t second = 11;
};

void PrintTo(const JoinedCase& c, std::ostream* out) {
  *out << c.layout << " " << c.mask << (c.has_lengths ? " lengths " : " ") << c.first << " + "
       << c.second;
}

// Keys of two sequences, each of which is cut by itself, with masks and lengths that count them
// through.
class JoinedRingAttention : public ::testing::TestWithParam<JoinedCase> {};

TEST_P(JoinedRingAttention, EqualsAttentionOnOneRank) {
  const JoinedCase& c = GetParam();
  const bool is_token_major = c.layout == "bshd";
  const auto shape = [&](std::int64_t tokens, int width) {
    return is_token_major ? str_cat("f32[2, ", tokens, ", 3, ", width, "]")
                          : str_cat("f32[2, 3, ", tokens, ", ", width, "]");
  };
  const int tokens = is_token_major ? 1 : 2;
  std::string text = str_cat("graph @g (%q: ", shape(7, 4));
  for (const auto& [name, size] : {std::pair{"a", c.first}, {"b", c.second}}) {
    text += str_cat(", %k", name, ": ", shape(size, 4), ", %v", name, ": ", shape(size, 6));
  }
  if (!c.mask.empty()) text += ", %mask: " + c.mask;
  if (c.has_lengths) text += ", %lengths: i64[2]";
  text += ") {\n %qn = Neg(%q)\n";
  for (const char* name : {"ka", "kb", "va", "vb"}) {
    text += str_cat(" %", name, "n = Neg(%", name, ")\n");
  }
  text +=
      str_cat(" %k = Concat(%kan, %kbn) {axis = ", tokens,
              "}\n %v = Concat(%van, %vbn) {axis = ", tokens, "}\n %y = Attention(%qn, %k, %v, ",
              c.mask.empty() ? "_" : "%mask", c.has_lengths ? ", %lengths" : "", ") {layout = \"",
              c.layout, "\", scale = 0.7}\n %z = Neg(%y)\n return %z\n}");
  OpRegistry ops;
  LoweringRegistry lowerings;
  register_all_ops(&ops, &lowerings);
  const auto run = [&](int ranks) {
    auto graph = parse_graph(text, ops);
    EXPECT_TRUE(graph.ok()) << graph.status().to_string() << text;
    CompileOptions options;
    options.registry = &ops;
    options.mesh = *Mesh::parse(str_cat("cp=", ranks));
    options.attention_exchange = AttentionExchange::kRing;
    options.detect_invariant_inputs = false;
    for (const char* name : {"kan", "kbn", "van", "vbn"}) {
      options.seeds.push_back({name, tokens, "cp"});
    }
    auto compiled = compile(*std::move(graph), options);
    EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
    Plan plan;
    plan.mesh = options.mesh;
    plan.main = std::move(compiled->main);
    int rings = 0;
    for (const auto& node : plan.main->nodes()) rings += node->type() == "JoinedRingAttention";
    EXPECT_EQ(rings, ranks == 1 ? 0 : 1) << print(*plan.main);
    std::minstd_rand random(7);
    TensorMap given;
    for (const auto& input : compiled->inputs) {
      plan.inputs.push_back({input.name, input.type.dtype, input.type.shape});
      Tensor tensor = *Tensor::allocate(input.type.dtype, *to_constant(input.type.shape));
      for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
        const double unit = static_cast<double>(random()) / random.max() * 2 - 1;
        if (input.type.dtype == DType::kFloat32) {
          tensor.mutable_data_as<float>()[i] = static_cast<float>(unit);
        } else if (input.type.dtype == DType::kBool) {
          tensor.mutable_data_as<bool>()[i] = unit > -0.4;
        } else {
          tensor.mutable_data_as<std::int64_t>()[i] = i == 0 ? c.first + 2 : c.first - 2;
        }
      }
      given.emplace(input.name, std::move(tensor));
    }
    for (const auto& output : compiled->outputs) {
      plan.outputs.push_back({output.name, output.type.dtype, output.type.shape});
    }
    const auto backend = cpu::make_cpu_backend();
    auto instance = Instance::load(std::move(plan), *backend);
    EXPECT_TRUE(instance.ok()) << instance.status().to_string();
    auto outputs = (*instance)->infer(given);
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? outputs->begin()->second.to_doubles() : std::vector<double>();
  };
  const std::vector<double> right = run(1);
  ASSERT_FALSE(right.empty());
  for (const int ranks : {2, 3, 5, 8}) {
    const std::vector<double> found = run(ranks);
    ASSERT_EQ(found.size(), right.size());
    for (std::size_t i = 0; i < right.size(); ++i) {
      ASSERT_NEAR(found[i], right[i], 1e-5) << ranks << " ranks, element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, JoinedRingAttention,
    ::testing::Values(JoinedCase{}, JoinedCase{.layout = "bshd"}, JoinedCase{.mask = "f32[7, 16]"},
                      JoinedCase{.layout = "bshd", .mask = "bool[2, 1, 1, 16]"},
                      JoinedCase{.has_lengths = true},
                      JoinedCase{.mask = "f32[3, 7, 16]", .has_lengths = true},
                      JoinedCase{.first = 1, .second = 2},
                      JoinedCase{.mask = "bool[1, 3]", .first = 2, .second = 1}));

// Bytes of a gather, in as many steps, and much less memory.
TEST(RingAttentionCost, HoldsThreePiecesAndMovesAsMuchAsAGather) {
  OpRegistry ops;
  LoweringRegistry lowerings;
  register_all_ops(&ops, &lowerings);
  struct Found {
    std::int64_t sent = 0;
    std::size_t arena = 0;
  };
  constexpr int kRanks = 8;
  const auto measure = [&](AttentionExchange exchange) {
    auto graph = parse_graph(R"(graph @g (%x: f32[1, 1, 4096, 32]) {
      %q = Neg(%x)
      %k = Abs(%x)
      %v = Exp(%x)
      %y = Attention(%q, %k, %v) {layout = "bhsd", scale = 0.2}
      %m = Reduce(%y) {kind = "sum", axes = [2], keepdims = 0}
      return %m
    })",
                             ops);
    CompileOptions options;
    options.registry = &ops;
    options.mesh = *Mesh::parse(str_cat("cp=", kRanks));
    options.attention_exchange = exchange;
    options.seeds = {{"k", 2, "cp"}, {"v", 2, "cp"}};
    auto compiled = compile(*std::move(graph), options);
    EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
    Plan plan;
    plan.mesh = options.mesh;
    plan.main = std::move(compiled->main);
    plan.inputs = {{"x", DType::kFloat32, {1, 1, 4096, 32}}};
    plan.outputs = {{"m", DType::kFloat32, {1, 1, 32}}};
    const auto backend = cpu::make_cpu_backend();
    auto instance = Instance::load(std::move(plan), *backend);
    EXPECT_TRUE(instance.ok()) << instance.status().to_string();
    Tensor x = *Tensor::allocate(DType::kFloat32, {1, 1, 4096, 32});
    std::fill_n(x.mutable_data_as<float>(), x.element_count(), 0.5F);
    EXPECT_TRUE((*instance)->infer({{"x", x}}).ok());
    return Found{(*instance)->group().sent_bytes()[0], (*instance)->memory().ranks[0].arena_bytes};
  };
  const Found gather = measure(AttentionExchange::kGather);
  const Found ring = measure(AttentionExchange::kRing);
  EXPECT_EQ(ring.sent, gather.sent);
  // Keys and values, and this rank's part of the sum at the end.
  EXPECT_EQ(ring.sent, (2 * 4096 / kRanks * 32 + 32) * 4 * (kRanks - 1));
  EXPECT_LT(ring.arena * 2, gather.arena);
}

}  // namespace
}  // namespace tutti
