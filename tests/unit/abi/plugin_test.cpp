// The border to plug-ins, with the CPU backend behind it: what crosses must arrive unchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "backends/abi/error.h"
#include "backends/abi/export_backend.h"
#include "backends/abi/node_text.h"
#include "backends/abi/plugin_backend.h"
#include "backends/cpu/backend.h"
#include "graph/printer.h"
#include "runtime/instance.h"
#include "support/core_ops.h"
#include "support/temp_folder.h"

namespace tutti::abi {
namespace {

using ::testing::HasSubstr;

using test::core_ops;

// A backend with memory of its own kinds, of which it notes what it is asked.
class MemoryBackend final : public Backend {
 public:
  std::string name() const override { return "memory"; }
  int device_count() const override { return 1; }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override {
    return cpu_->create_rank(options);
  }
  Status check_device_memory(int device, const void* data, std::size_t bytes) override {
    return invalid_argument("device ", device, " does not have ", bytes, " bytes at ",
                            reinterpret_cast<std::uintptr_t>(data));
  }
  Status read_device_memory(void* host, int, const void* source, std::size_t bytes) override {
    std::memcpy(host, source, bytes);
    return {};
  }
  Result<std::shared_ptr<std::byte>> allocate_host(std::size_t bytes) override {
    if (bytes == 0) return std::shared_ptr<std::byte>();
    return std::shared_ptr<std::byte>(new std::byte[bytes], [](std::byte* data) {
      ++freed;
      delete[] data;
    });
  }
  Result<std::shared_ptr<std::byte>> open_device_memory(int device,
                                                        std::span<const std::byte> handle,
                                                        std::size_t bytes) override {
    if (handle.size() != 2) {
      return invalid_argument("a handle of ", handle.size(), " bytes for ", bytes, " on ", device);
    }
    return counted(bytes, handle[0]);
  }
  Result<std::shared_ptr<std::byte>> allocate_device(int device, std::size_t bytes) override {
    if (bytes == 0) return std::shared_ptr<std::byte>();
    return counted(bytes, static_cast<std::byte>(device));
  }
  Status write_device_memory(int, void* target, const void* host, std::size_t bytes) override {
    std::memcpy(target, host, bytes);
    return {};
  }
  Result<DeviceLoad> device_load(int device) override {
    if (device != 0) return invalid_argument("no device ", device);
    return DeviceLoad{"GPU-7", 6, 5, 0.25, 300, 700, 1e9};
  }
  void offer(const Artifact& artifact) override { artifacts_.push_back(artifact); }
  std::vector<Artifact> artifacts() override { return artifacts_; }
  static inline int freed = 0;

 private:
  static std::shared_ptr<std::byte> counted(std::size_t bytes, std::byte fill) {
    auto* data = new std::byte[bytes];
    std::memset(data, static_cast<int>(fill), bytes);
    return {data, [](std::byte* gone) {
              ++freed;
              delete[] gone;
            }};
  }

  std::unique_ptr<Backend> cpu_ = cpu::make_cpu_backend();
  std::vector<Artifact> artifacts_;
};

// A process exports one backend.
bool exports_memory = false;

Result<std::unique_ptr<Backend>> make_cpu() {
  if (exports_memory) return std::unique_ptr<Backend>(std::make_unique<MemoryBackend>());
  return cpu::make_cpu_backend();
}

// Without a device; its first artifact tells for what.
Result<std::unique_ptr<Backend>> make_offline(const std::string& target) {
  if (target != "kind 7") return invalid_argument("'", target, "' is no kind, expected kind 7");
  auto backend = std::make_unique<MemoryBackend>();
  backend->offer({"", "kind", target, "", "", {}, ""});
  return std::unique_ptr<Backend>(std::move(backend));
}

std::unique_ptr<Backend> plugin() {
  auto backend = make_plugin_backend(export_backend("elsewhere", make_cpu, make_offline));
  EXPECT_TRUE(backend.ok()) << backend.status().to_string();
  return *std::move(backend);
}

Plan plan_of(const std::string& text) {
  auto graph = parse_graph(text, core_ops());
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  Plan plan;
  plan.main = *std::move(graph);
  for (const Value* input : plan.main->inputs()) {
    plan.inputs.push_back({input->name(), input->dtype(), input->shape()});
  }
  for (const Value* output : plan.main->outputs()) {
    plan.outputs.push_back({output->name(), output->dtype(), output->shape()});
  }
  return plan;
}

Result<TensorMap> run(const std::string& text, Backend& backend, const TensorMap& inputs) {
  TUTTI_ASSIGN_OR_RETURN(auto instance, Instance::load(plan_of(text), backend));
  return instance->infer(inputs);
}

Tensor numbers(Dims dims) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.mutable_data_as<float>()[i] = static_cast<float>(i % 7) - 2.5F;
  }
  return tensor;
}

TEST(Plugin, NodesConstantsAndSymbolsArriveAsTheyAre) {
  const auto backend = plugin();
  const std::string text = R"(graph (%x: f32[b, 3]) {
    %w = constant f32[3, 2] [1, 2, 3, 4, 5, 6]
    %y = MatMul(%x, %w)
    %s = Slice(%y) {axes = [0], starts = dims[b - 2], ends = dims[b], steps = [1]}
    %r = Pointwise(%s, %s) {body = graph (%p: f32[], %q: f32[]) {
      %k = constant f32[] [0.1]
      %m = Mul(%p, %k)
      %a = Add(%m, %q)
      return %a
    }}
    %c = Clip(%r) {max = 4.5}
    return %c
  })";
  const auto outputs = run(text, *backend, {{"x", numbers({4, 3})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const auto expected = run(text, *cpu::make_cpu_backend(), {{"x", numbers({4, 3})}});
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  EXPECT_EQ(outputs->at("c").dims(), (Dims{2, 2}));
  EXPECT_EQ(outputs->at("c").to_doubles(), expected->at("c").to_doubles());
}

TEST(Plugin, AbsentOperandsAndSeveralOutputsKeepTheirPlaces) {
  const auto backend = plugin();
  const std::string text = R"(graph (%x: f32[2, 5]) {
    %b = constant f32[5] [1, 2, 3, 4, 5]
    %n = LayerNormalization(%x, _, %b) {axis = 1, epsilon = 1e-5}
    %v, %i = TopK(%n) {axis = 1, k = dims[2], largest = 1, sorted = 1}
    return %v, %i
  })";
  const auto outputs = run(text, *backend, {{"x", numbers({2, 5})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const auto expected = run(text, *cpu::make_cpu_backend(), {{"x", numbers({2, 5})}});
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  EXPECT_EQ(outputs->at("v").to_doubles(), expected->at("v").to_doubles());
  EXPECT_EQ(outputs->at("i").to_ints(), expected->at("i").to_ints());
}

TEST(Plugin, ErrorsKeepTheirCodeAndWords) {
  const auto backend = plugin();
  const auto outputs = run(R"(graph (%x: f32[3], %i: i64[1]) {
    %y = Gather(%x, %i) {axis = 0} @pick
    return %y
  })",
                           *backend, {{"x", numbers({3})}, {"i", Tensor::ints({{7}})}});
  EXPECT_EQ(outputs.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(outputs.status().message(), HasSubstr("pick"));
  EXPECT_THAT(outputs.status().message(), HasSubstr("index 7 is not in [-3, 3)"));
}

TEST(Plugin, RanksTellEachOtherBytesThroughTheHost) {
  const auto backend = plugin();
  const auto communicators = make_local_communicators(2);
  std::vector<std::unique_ptr<RankDevice>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    RankDeviceOptions options;
    options.rank = rank;
    options.axes = {"cp", "one"};
    options.communicators = {communicators[static_cast<std::size_t>(rank)], nullptr};
    auto made = backend->create_rank(options);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    ranks.push_back(*std::move(made));
  }
  // A CPU rank behind the border moves no data of others: it says so, and takes nobody with it.
  Graph graph;
  const OpDef* op = core_ops().find("AllReduce");
  ASSERT_NE(op, nullptr);
  Value* x = graph.add_input("x", {DType::kFloat32, {2}});
  const Node* node = graph.add_node(
      *op, "sum", {x},
      {{"axis", std::string("cp")}, {"ranks", std::int64_t{2}}, {"op", std::string("sum")}},
      {{DType::kFloat32, {2}}});
  const TensorDesc desc{DType::kFloat32, {2}};
  const Tensor* constant = nullptr;
  const SymbolMap symbols{{"rank.cp", 0}};
  auto kernel = ranks[0]->make_kernel({*node, {&desc, 1}, {&desc, 1}, {&constant, 1}, symbols});
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  const float values[2] = {1, 2};
  float sums[2] = {0, 0};
  const void* input = values;
  void* output = sums;
  EXPECT_EQ((*kernel)->run({{&input, 1}, {&output, 1}, nullptr}).code(),
            StatusCode::kUnimplemented);
}

TEST(Plugin, GatherGivesEveryRanksBytesInOrder) {
  const auto communicators = make_local_communicators(3);
  std::vector<std::string> seen(3);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const std::string mine(4, static_cast<char>('a' + rank));
      std::string all(12, ' ');
      EXPECT_TRUE(communicators[rank]->gather(mine.data(), all.data(), 4).ok());
      communicators[rank]->add_sent(5);
      seen[rank] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& all : seen) EXPECT_EQ(all, "aaaabbbbcccc");
  EXPECT_EQ(communicators[1]->sent_bytes(), 5);
}

TEST(Plugin, MemoryOfDevicesAndOfTheHostCrosses) {
  exports_memory = true;
  auto made = make_plugin_backend(export_backend("elsewhere", make_cpu));
  exports_memory = false;
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const Status refused = (*made)->check_device_memory(3, reinterpret_cast<void*>(64), 5);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), "device 3 does not have 5 bytes at 64");
  char copy[4] = {};
  EXPECT_TRUE((*made)->read_device_memory(copy, 0, "abc", 4).ok());
  EXPECT_STREQ(copy, "abc");
  EXPECT_EQ(*(*made)->allocate_host(0), nullptr);
  auto memory = (*made)->allocate_host(100);
  ASSERT_TRUE(memory.ok() && *memory != nullptr);
  made = internal_error("gone");  // memory may outlive its backend
  std::memset(memory->get(), 1, 100);
  EXPECT_EQ(MemoryBackend::freed, 0);
  memory->reset();
  EXPECT_EQ(MemoryBackend::freed, 1);
}

TEST(Plugin, SharedMemoryOfDevicesAndTheirLoadCross) {
  exports_memory = true;
  auto made = make_plugin_backend(export_backend("elsewhere", make_cpu));
  exports_memory = false;
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const std::byte handle[3] = {std::byte{9}, std::byte{8}, std::byte{7}};
  EXPECT_EQ((*made)->open_device_memory(4, handle, 5).status().message(),
            "a handle of 3 bytes for 5 on 4");
  auto opened = (*made)->open_device_memory(4, std::span(handle).first(2), 5);
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  EXPECT_EQ((*opened).get()[4], std::byte{9});
  EXPECT_EQ(*(*made)->allocate_device(1, 0), nullptr);
  auto room = (*made)->allocate_device(1, 4);
  ASSERT_TRUE(room.ok() && *room != nullptr);
  EXPECT_EQ((*room).get()[3], std::byte{1});
  EXPECT_TRUE((*made)->write_device_memory(1, room->get(), "abc", 4).ok());
  EXPECT_STREQ(reinterpret_cast<const char*>(room->get()), "abc");
  const auto load = (*made)->device_load(0);
  ASSERT_TRUE(load.ok()) << load.status().to_string();
  EXPECT_EQ(load->uuid, "GPU-7");
  EXPECT_EQ(load->memory_total_bytes, 6);
  EXPECT_EQ(load->memory_used_bytes, 5);
  EXPECT_EQ(load->utilization, 0.25);
  EXPECT_EQ(load->power_watts, 300);
  EXPECT_EQ(load->power_limit_watts, 700);
  EXPECT_EQ(load->energy_joules, 1e9);
  EXPECT_EQ((*made)->device_load(1).status().message(), "no device 1");
  made = internal_error("gone");  // memory may outlive its backend
  const int before = MemoryBackend::freed;
  opened->reset();
  room->reset();
  EXPECT_EQ(MemoryBackend::freed, before + 2);
}

// A plug-in that was built before they came.
TEST(Plugin, EntriesThatAnOlderPluginLacksAreDoneWithout) {
  exports_memory = true;
  tutti_backend_api table = *export_backend("elsewhere", make_cpu, make_offline);
  table.size = offsetof(tutti_backend_api, open_device_memory);
  auto made = make_plugin_backend(&table);
  exports_memory = false;
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const std::byte handle[2] = {};
  EXPECT_EQ((*made)->open_device_memory(0, handle, 1).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(*(*made)->allocate_device(0, 4), nullptr);
  EXPECT_FALSE((*made)->write_device_memory(0, nullptr, "abc", 4).ok());
  EXPECT_EQ((*made)->device_load(0).status().code(), StatusCode::kUnimplemented);
  (*made)->offer({"elsewhere", "kind", "", "", "", {}, ""});
  EXPECT_TRUE((*made)->artifacts().empty());
  EXPECT_EQ(make_plugin_backend(&table, "kind 7").status().code(), StatusCode::kUnimplemented);
}

TEST(Plugin, ArtifactsCrossBothWays) {
  exports_memory = true;
  const auto backend = plugin();
  exports_memory = false;
  const Artifact mine = {"elsewhere",           "kind", "target", "maker", "name", {1, ~0ULL},
                         std::string("a\0b", 3)};
  Artifact foreign = mine;
  foreign.backend = "another";
  backend->offer(mine);
  backend->offer(foreign);
  EXPECT_EQ(backend->artifacts(), std::vector<Artifact>{mine});
}

TEST(Plugin, ABackendWithoutDevicesIsMadeForATarget) {
  const tutti_backend_api* table = export_backend("elsewhere", make_cpu, make_offline);
  auto made = make_plugin_backend(table, "kind 7");
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  ASSERT_EQ((*made)->artifacts().size(), 1);
  EXPECT_EQ((*made)->artifacts()[0].target, "kind 7");
  EXPECT_THAT(make_plugin_backend(table, "kind 8").status().message(),
              HasSubstr("'kind 8' is no kind, expected kind 7"));
}

TEST(Plugin, AnotherAbiIsRefusedWithBothNumbers) {
  tutti_backend_api table = *export_backend("elsewhere", make_cpu, make_offline);
  table.abi = TUTTI_BACKEND_ABI + 1;
  EXPECT_THAT(make_plugin_backend(&table).status().message(),
              HasSubstr("has backend ABI 3, expected 2"));
  table.abi = TUTTI_BACKEND_ABI;
  table.size = 16;
  EXPECT_THAT(make_plugin_backend(&table).status().message(), HasSubstr("has 16 bytes"));
}

TEST(Plugin, MissingAndForeignFilesAreNamed) {
  const test::TempFolder temporary;
  const std::string folder = temporary.path();
  EXPECT_EQ(find_plugin("nothere", folder).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(find_plugin("nothere", folder).status().message(), HasSubstr("libtutti_nothere.so"));
  const std::string path = folder + "/libtutti_text.so";
  std::ofstream(path) << "no library";
  EXPECT_EQ(open_plugin(path).status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(open_plugin(path).status().message(), HasSubstr(path));
}

TEST(Plugin, ExceptionsStopAtTheBorder) {
  tutti_error error{};
  EXPECT_NE(guarded(&error, []() -> Status { throw std::runtime_error("inside"); }), 0);
  EXPECT_EQ(to_status(error).code(), StatusCode::kInternal);
  EXPECT_THAT(to_status(error).message(), HasSubstr("inside"));
}

TEST(Plugin, LongMessagesAreCutNotOverrun) {
  tutti_error error{};
  EXPECT_NE(report(invalid_argument(std::string(5000, 'x')), &error), 0);
  EXPECT_EQ(to_status(error).message().size(), sizeof error.message - 1);
}

TEST(NodeText, AValueInSeveralPlacesIsOneInput) {
  const auto graph = parse_graph("graph (%a: f32[n]) { %b = Add(%a, %a) return %b }", core_ops());
  ASSERT_TRUE(graph.ok());
  const auto alone = parse_node(node_text(*(*graph)->nodes().front()), core_ops());
  ASSERT_TRUE(alone.ok()) << alone.status().to_string();
  EXPECT_EQ((*alone)->inputs().size(), 1U);
  EXPECT_EQ((*alone)->nodes().front()->inputs().size(), 2U);
}

}  // namespace
}  // namespace tutti::abi
