#include "runtime/pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "graph/printer.h"
#include "runtime/instance.h"
#include "runtime/node_sequence.h"
#include "support/core_ops.h"
#include "support/host_rank.h"

namespace tutti {
namespace {

using test::core_ops;

// Two layers; keys and values of the first one stand behind others that all ranks have.
constexpr const char* kLayers = R"(graph (%x: f32[1, t, 4, 8], %w: f32[1, 3, 2, 8]) {
    %q = ShardSlice(%x) {axis = "cp", ranks = 2, dim = 1, units = dims[t]}
    %k = Add(%q, %q)
    %v = Mul(%q, %k)
    %kh, %vh, %qh = AllToAll(%k, %v, %q) {axis = "cp", ranks = 2, from_dims = [1, 1, 1],
      from_units = dims[t, t, t], from_replicas = [1, 1, 1], to_dims = [2, 2, 2],
      to_units = dims[4, 4, 4], to_replicas = [1, 1, 1], sizes = dims[t, t, t]}
    %ka = Concat(%w, %kh) {axis = 1}
    %va = Concat(%w, %vh) {axis = 1}
    %a = Attention(%qh, %ka, %va) {scale = 0.25, layout = "bshd"}
    %b = AllToAll(%a) {axis = "cp", ranks = 2, from_dims = [2], from_units = dims[4],
      from_replicas = [1], to_dims = [1], to_units = dims[t], to_replicas = [1], sizes = dims[4]}
    %c = Add(%b, %v)
    %kh2, %vh2, %qh2 = AllToAll(%c, %v, %b) {axis = "cp", ranks = 2, from_dims = [1, 1, 1],
      from_units = dims[t, t, t], from_replicas = [1, 1, 1], to_dims = [2, 2, 2],
      to_units = dims[4, 4, 4], to_replicas = [1, 1, 1], sizes = dims[t, t, t]}
    %a2 = Attention(%qh2, %kh2, %vh2) {scale = 0.25, layout = "bshd"}
    %b2 = AllToAll(%a2) {axis = "cp", ranks = 2, from_dims = [2], from_units = dims[4],
      from_replicas = [1], to_dims = [1], to_units = dims[t], to_replicas = [1], sizes = dims[4]}
    %y = AllGather(%b2) {axis = "cp", ranks = 2, dim = 1, units = dims[t], size = dims[t]}
    return %y
  })";

std::unique_ptr<Graph> parsed(std::string text, const std::string& from = "",
                              const std::string& to = "") {
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  auto graph = parse_graph(text, core_ops());
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return *std::move(graph);
}

TEST(Pipelines, AreAttentionsBetweenTwoExchanges) {
  const auto graph = parsed(kLayers);
  const std::vector<JoinedNodes> found = find_pipelines(*graph, false);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0].positions, testing::ElementsAre(3, 4, 5, 6, 7));
  EXPECT_EQ(found[0].at, 3U);
  EXPECT_THAT(found[1].positions, testing::ElementsAre(9, 10, 11));
  EXPECT_EQ(found[0].node().type(), "PipelinedAttention");
  std::vector<std::string> operands;
  for (const Value* input : found[0].inputs) operands.push_back(input->name());
  EXPECT_THAT(operands, testing::ElementsAre("k", "v", "q", "w"));
  EXPECT_EQ(found[0].outputs[0]->name(), "b");
  EXPECT_TRUE(found[0].graph->verify().ok()) << print(*found[0].graph);
  // The node survives the way into a plug-in.
  const auto again = parse_graph(print(*found[0].graph), core_ops());
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(print(**again), print(*found[0].graph));
}

TEST(Pipelines, AreNotThereWhereSomebodyElseReadsWhatIsInside) {
  EXPECT_EQ(find_pipelines(*parsed(kLayers, "return %y", "return %y, %qh"), false).size(), 1U);
  EXPECT_EQ(
      find_pipelines(*parsed(kLayers, "%c = Add(%b, %v)", "%z = Exp(%a) %c = Add(%b, %v)"), false)
          .size(),
      1U);
  EXPECT_EQ(
      find_pipelines(*parsed(kLayers, "%b = AllToAll(%a)", "%e = Exp(%w) %b = AllToAll(%a)"), false)
          .size(),
      1U);
}

TEST(Pipelines, MayBeginWithWhatComputesTheirOperands) {
  const auto graph = parsed(kLayers);
  const std::vector<JoinedNodes> found = find_pipelines(*graph, true);
  ASSERT_EQ(found.size(), 1U);  // others read the first one's operands, too
  EXPECT_THAT(found[0].positions, testing::ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(found[0].at, 9U);
}

// Ranks of the CPU that run a pipeline's nodes one after the other, in memory of their own.
class JoiningDevice final : public test::HostRank {
 public:
  JoiningDevice(std::unique_ptr<RankDevice> host, int* joined)
      : HostRank(std::move(host)), joined_(joined) {}
  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) override {
    if (spec.node.type() != "PipelinedAttention") return HostRank::make_kernel(spec);
    ++*joined_;
    body_ = spec.node.attr_graph("body");
    return make_node_sequence(
        spec, *body_, [this](const KernelSpec& inner) { return HostRank::make_kernel(inner); });
  }

 private:
  int* joined_;
  std::shared_ptr<const Graph> body_;
};

class JoiningBackend final : public Backend {
 public:
  std::string name() const override { return "joining"; }
  int device_count() const override { return 2; }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RankDevice> host, cpu_->create_rank(options));
    const auto rank = static_cast<std::size_t>(options.rank);
    return std::unique_ptr<RankDevice>(
        std::make_unique<JoiningDevice>(std::move(host), &joined[rank]));
  }
  int joined[2] = {0, 0};

 private:
  std::unique_ptr<Backend> cpu_ = cpu::make_cpu_backend();
};

Plan plan_of_layers() {
  Plan plan;
  plan.mesh = *Mesh::parse("cp=2");
  plan.main = parsed(kLayers);
  for (const Value* input : plan.main->inputs()) {
    plan.inputs.push_back({input->name(), input->dtype(), input->shape()});
  }
  for (const Value* output : plan.main->outputs()) {
    plan.outputs.push_back({output->name(), output->dtype(), output->shape()});
  }
  return plan;
}

Tensor numbers(Dims dims, int seed) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.mutable_data_as<float>()[i] = static_cast<float>((i * 7 + seed * 13) % 19) * 0.125F;
  }
  return tensor;
}

TEST(Pipelines, GiveWhatTheirNodesGiveOneByOne) {
  JoiningBackend joining;
  auto joined = Instance::load(plan_of_layers(), joining);
  ASSERT_TRUE(joined.ok()) << joined.status().to_string();
  const auto cpu = cpu::make_cpu_backend();
  auto apart = Instance::load(plan_of_layers(), *cpu);
  ASSERT_TRUE(apart.ok()) << apart.status().to_string();
  for (const std::int64_t tokens : {9, 4, 9}) {
    const TensorMap inputs = {{"x", numbers({1, tokens, 4, 8}, static_cast<int>(tokens))},
                              {"w", numbers({1, 3, 2, 8}, 5)}};
    const auto got = (*joined)->infer(inputs);
    const auto want = (*apart)->infer(inputs);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    ASSERT_TRUE(want.ok()) << want.status().to_string();
    EXPECT_EQ(got->at("y").to_doubles(), want->at("y").to_doubles());
  }
  EXPECT_GE(joining.joined[0], 4);
  EXPECT_EQ(joining.joined[0], joining.joined[1]);
}

}  // namespace
}  // namespace tutti
