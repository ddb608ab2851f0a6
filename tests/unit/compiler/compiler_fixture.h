// What the tests of passes share: graphs from text, and texts that do not depend on how values that
// a pass made are called.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "compiler/compile.h"
#include "compiler/partition.h"
#include "compiler/passes.h"
#include "graph/printer.h"
#include "ops/lowering.h"

namespace tutti {

// The graph as text with node outputs called %0, %1, .. in order and constants written where they
// are used. Source names of nodes are left out.
std::string canonical(const Graph& graph);

class CompilerTest : public ::testing::Test {
 protected:
  CompilerTest();

  std::unique_ptr<Graph> parse(std::string_view text);
  // The same with numbers of their own in every `data` constant, so that none are equal.
  std::unique_ptr<Graph> parse_model(std::string_view text);
  CompileOptions options(std::string_view mesh = "");

  // Runs a pass over `before` and expects `after`, both in text.
  using GraphPass = Status (*)(Graph&, const CompileOptions&);
  void expect_pass(GraphPass pass, std::string_view before, std::string_view after);

  // Propagates, partitions, merges and verifies along the one axis of the mesh; the test fails
  // where one of them does.
  Partitioned to_spmd(const Graph& graph, const CompileOptions& options);
  CompiledModel compile_text(std::string_view text, const CompileOptions& options);

  OpRegistry ops_;
};

int count_nodes(const Graph& graph, std::string_view type);
const Node* find_node(const Graph& graph, std::string_view type);  // the first one, or null

}  // namespace tutti
