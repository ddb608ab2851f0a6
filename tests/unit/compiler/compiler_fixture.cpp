#include "compiler_fixture.h"

#include <map>
#include <sstream>

#include "compiler/layout.h"

namespace tutti {
namespace {

// "%name" ends where no name character follows.
std::string replace_names(const std::string& line,
                          const std::map<std::string, std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] != '%') {
      out += line[i++];
      continue;
    }
    std::size_t end = i + 1;
    while (end < line.size() &&
           (std::isalnum(static_cast<unsigned char>(line[end])) != 0 ||
            std::string_view("_./").find(line[end]) != std::string_view::npos)) {
      ++end;
    }
    const std::string name = line.substr(i + 1, end - i - 1);
    const auto it = names.find(name);
    out += it == names.end() ? "%" + name : it->second;
    i = end;
  }
  return out;
}

}  // namespace

std::string canonical(const Graph& graph) {
  const auto copy = graph.clone();
  copy->output_names.clear();
  // Names that no text uses, to make room.
  int number = 0;
  for (Value* value : copy->values()) {
    if (!value->is_input()) copy->rename(value, str_cat("_", number++));
  }
  number = 0;
  std::map<std::string, std::string> names;
  for (const auto& node : copy->nodes()) {
    for (const Value* output : node->outputs()) names[output->name()] = str_cat("%", number++);
  }
  std::istringstream lines(print(*copy));
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t constant = line.find(" = constant ");
    if (line.starts_with("  %_") && constant != std::string::npos) {
      names[line.substr(3, constant - 3)] = "(" + line.substr(constant + 12) + ")";
      continue;
    }
    if (const std::size_t at = line.find(" @"); at != std::string::npos && line[0] == ' ') {
      line.resize(at);
    }
    out += replace_names(line, names) + "\n";
  }
  return out;
}

CompilerTest::CompilerTest() {
  LoweringRegistry lowerings;
  register_all_ops(&ops_, &lowerings);
}

std::unique_ptr<Graph> CompilerTest::parse(std::string_view text) {
  auto graph = parse_graph(text, ops_);
  EXPECT_TRUE(graph.ok()) << graph.status().to_string() << "\n" << text;
  return graph.ok() ? *std::move(graph) : std::make_unique<Graph>();
}

std::unique_ptr<Graph> CompilerTest::parse_model(std::string_view text) {
  auto graph = parse(text);
  std::uint32_t state = 1;
  for (Value* constant : graph->constants()) {
    Tensor tensor = constant->constant();  // shares storage
    if (tensor.dtype() != DType::kFloat32 || tensor.element_count() < 2) continue;
    float* data = tensor.mutable_data_as<float>();
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
      state = state * 1664525 + 1013904223;
      data[i] = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F;
    }
  }
  return graph;
}

CompileOptions CompilerTest::options(std::string_view mesh) {
  CompileOptions options;
  options.registry = &ops_;
  auto parsed = Mesh::parse(mesh);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  if (parsed.ok()) options.mesh = *parsed;
  return options;
}

void CompilerTest::expect_pass(GraphPass pass, std::string_view before, std::string_view after) {
  const auto graph = parse(before);
  const auto expected = parse(after);
  const Status status = pass(*graph, options());
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(graph->verify().ok()) << graph->verify().to_string();
  EXPECT_EQ(canonical(*graph), canonical(*expected));
}

Partitioned CompilerTest::to_spmd(const Graph& graph, const CompileOptions& options) {
  const std::vector<int> axes = distribution_order(options);
  EXPECT_EQ(axes.size(), 1U) << "one axis at a time";
  if (axes.size() != 1) return {};
  auto sharding = propagate_layouts(graph, options, axes[0]);
  EXPECT_TRUE(sharding.ok()) << sharding.status().to_string();
  if (!sharding.ok()) return {};
  auto spmd = partition(graph, *sharding, options);
  EXPECT_TRUE(spmd.ok()) << spmd.status().to_string();
  if (!spmd.ok()) return {};
  const Status merged = merge_exchanges(*spmd, options);
  EXPECT_TRUE(merged.ok()) << merged.to_string();
  EXPECT_TRUE(spmd->graph->verify().ok());
  const Status verified = verify_layouts(*spmd, options.mesh);
  EXPECT_TRUE(verified.ok()) << verified.to_string();
  return *std::move(spmd);
}

CompiledModel CompilerTest::compile_text(std::string_view text, const CompileOptions& options) {
  auto model = compile(parse_model(text), options);
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  if (!model.ok()) {
    CompiledModel empty;
    empty.main = std::make_unique<Graph>();
    return empty;
  }
  return *std::move(model);
}

int count_nodes(const Graph& graph, std::string_view type) {
  int count = 0;
  for (const auto& node : graph.nodes()) count += node->type() == type ? 1 : 0;
  return count;
}

const Node* find_node(const Graph& graph, std::string_view type) {
  for (const auto& node : graph.nodes()) {
    if (node->type() == type) return node.get();
  }
  return nullptr;
}

}  // namespace tutti
