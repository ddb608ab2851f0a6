// Exchange operators' types, conversions between layouts, and the bytes that they move.
#include <gmock/gmock.h>

#include <set>

#include "compiler/conversion.h"
#include "compiler/cost.h"
#include "compiler/explain.h"
#include "compiler_fixture.h"
#include "toy_transformer.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ExchangeTest : public CompilerTest {
 protected:
  std::string error_of(std::string_view text) {
    const auto graph = parse_graph(text, ops_);
    EXPECT_FALSE(graph.ok()) << text;
    return graph.status().message();
  }
};

TEST_F(ExchangeTest, ShardSliceAndAllGatherAreInverseInType) {
  const auto graph = parse(R"(graph @g (%x: f32[b, 40, 8]) {
    %p: f32[b, 5*part(8,3,rank.cp), 8] = ShardSlice(%x) {axis = "cp", ranks = 3, dim = 1, units = dims[8], replicas = 1}
    %w: f32[b, 40, 8] = AllGather(%p) {axis = "cp", ranks = 3, dim = 1, units = dims[8], replicas = 1, size = dims[40]}
    return %w
  })");
  EXPECT_EQ(graph->outputs()[0]->type(), graph->inputs()[0]->type());
}

TEST_F(ExchangeTest, AllGatherTakesOperandsOfDifferentSizes) {
  const auto graph = parse(R"(graph @g (%x: f32[7, 8], %y: f32[s, 3]) {
    %xp = ShardSlice(%x) {axis = "cp", ranks = 3, dim = 0, units = dims[7]}
    %yp = ShardSlice(%y) {axis = "cp", ranks = 3, dim = 0, units = dims[s]}
    %xw: f32[7, 8], %yw: f32[s, 3] = AllGather(%xp, %yp) {axis = "cp", ranks = 3, dim = 0, units = dims[7, s], size = dims[7, s]}
    return %xw, %yw
  })");
  EXPECT_TRUE(graph->verify().ok());
  const Node& gather = *graph->outputs()[0]->producer();
  EXPECT_EQ(exchange_sent_bytes(gather).to_string(), "64*part(7,3,rank.cp)+24*part(s,3,rank.cp)");
  EXPECT_THAT(error_of(R"(graph @g (%x: f32[7, 8], %y: f32[s, 3], %z: f32[1]) {
    %a, %b, %c = AllGather(%x, %y, %z) {axis = "cp", ranks = 3, dim = 0, units = dims[7, s], size = dims[7]}
    return %a
  })"),
              HasSubstr("lists 2 elements for 3 inputs, expected 1 or as many"));
}

TEST_F(ExchangeTest, AllToAllTakesSeveralOperands) {
  const auto graph = parse(R"(graph @g (%q: f32[b, s, 8, 4], %k: f32[b, s, 2, 4]) {
    %qp = ShardSlice(%q) {axis = "cp", ranks = 4, dim = 1, units = dims[s]}
    %kp = ShardSlice(%k) {axis = "cp", ranks = 4, dim = 1, units = dims[s]}
    %qh: f32[b, s, 2, 4], %kh: f32[b, s, 1, 4] = AllToAll(%qp, %kp) {axis = "cp", ranks = 4,
      from_dims = [1, 1], from_units = dims[s, s], from_replicas = [1, 1],
      to_dims = [2, 2], to_units = dims[4, 2], to_replicas = [1, 2], sizes = dims[s, s]}
    return %qh, %kh
  })");
  EXPECT_TRUE(graph->verify().ok());
}

TEST_F(ExchangeTest, PiecesOfTheWrongSizeAreErrors) {
  EXPECT_THAT(error_of(R"(graph @g (%x: f32[7, 8]) {
    %p = ShardSlice(%x) {axis = "cp", ranks = 2, dim = 0, units = dims[2]}
    return %p
  })"),
              HasSubstr("size 7 is not a whole number of 2 units"));
  EXPECT_THAT(error_of(R"(graph @g (%x: f32[7, 8]) {
    %p = AllGather(%x) {axis = "cp", ranks = 2, dim = 0, units = dims[7], size = dims[7]}
    return %p
  })"),
              AllOf(HasSubstr("has size 7"), HasSubstr("part(7,2,rank.cp)")));
  EXPECT_THAT(error_of(R"(graph @g (%x: f32[7, 8]) {
    %p = ShardSlice(%x) {axis = "cp", ranks = 2, dim = 2, units = dims[7]}
    return %p
  })"),
              HasSubstr("dimension 2 is outside [0, 2)"));
  EXPECT_THAT(error_of(R"(graph @g (%x: f32[4, 8]) {
    %p = AllToAll(%x) {axis = "cp", ranks = 2, from_dims = [0], from_units = dims[8],
      from_replicas = [1], to_dims = [0], to_units = dims[8], to_replicas = [1], sizes = dims[8]}
    return %p
  })"),
              HasSubstr("to the same dimension"));
  EXPECT_THAT(error_of(R"(graph @g (%x: f32[4, 8]) {
    %p = AllReduce(%x) {axis = "cp", ranks = 2, op = "product"}
    return %p
  })"),
              HasSubstr("'product', expected sum, max or min"));
}

class ConversionTest : public CompilerTest {
 protected:
  static Layout split(int dim, const Dim& units, int axis = 0, int replicas = 1) {
    Layout layout;
    layout.set({dim, axis, units, replicas});
    return layout;
  }
  std::vector<StepKind> kinds(const Layout& from, const Layout& to, std::string_view mesh) {
    std::vector<StepKind> out;
    for (const ConversionStep& step : conversion_steps(from, to, *Mesh::parse(mesh))) {
      out.push_back(step.kind);
    }
    return out;
  }
};

TEST_F(ConversionTest, OneStepWhereOneIsEnough) {
  const Dim s = Dim::symbol("s");
  Layout partial;
  partial.partial_axes = {0};
  EXPECT_THAT(kinds(Layout(), split(0, s), "cp=2"), ElementsAre(StepKind::kSlice));
  EXPECT_THAT(kinds(split(0, s), Layout(), "cp=2"), ElementsAre(StepKind::kGather));
  EXPECT_THAT(kinds(split(0, s), split(1, 8), "cp=2"), ElementsAre(StepKind::kAllToAll));
  EXPECT_THAT(kinds(partial, Layout(), "cp=2"), ElementsAre(StepKind::kAllReduce));
  EXPECT_THAT(kinds(partial, split(0, s), "cp=2"), ElementsAre(StepKind::kReduceScatter));
  EXPECT_THAT(kinds(split(0, s), split(0, s), "cp=2"), ElementsAre());
}

TEST_F(ConversionTest, EvenPiecesInOtherUnitsAreTheSamePieces) {
  EXPECT_THAT(kinds(split(0, 8), split(0, 4), "cp=4"), ElementsAre());
  EXPECT_THAT(kinds(split(0, 8), split(0, 4), "cp=3"), ElementsAre(StepKind::kHalo));
  EXPECT_THAT(kinds(split(0, 8), split(0, 8, 0, 2), "cp=3"),
              ElementsAre(StepKind::kGather, StepKind::kSlice));
}

// Counts, element by element, what ranks lack after a conversion.
std::int64_t lacking_elements(std::int64_t rows, std::int64_t columns, int ranks,
                              std::int64_t from_units, std::int64_t to_units,
                              std::int64_t replicas) {
  std::int64_t count = 0;
  const auto holds = [&](std::int64_t index, std::int64_t size, std::int64_t units,
                         std::int64_t copies, int rank) {
    const std::int64_t unit = index / (size / units);
    const std::int64_t first = part_offset(units * copies, ranks, rank);
    const std::int64_t last = first + part_size(units * copies, ranks, rank);
    return first < (unit + 1) * copies && last > unit * copies && first < last;
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (int rank = 0; rank < ranks; ++rank) {
        const bool has_row = holds(i, rows, from_units, 1, rank);
        count += !has_row && holds(j, columns, to_units, replicas, rank) ? 1 : 0;
      }
    }
  }
  return count;
}

TEST_F(ConversionTest, BytesOfAnAllToAllAreWhatTheRanksLack) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const auto& [rows, columns, units, replicas] :
         {std::tuple{16, 8, 8, 1}, {17, 8, 8, 1}, {5, 12, 4, 1}, {9, 8, 4, 2}, {3, 6, 2, 4}}) {
      const Mesh mesh = *Mesh::parse(str_cat("cp=", ranks));
      ConversionStep step{
          StepKind::kAllToAll, 0, {0, 0, Dim(rows), 1}, {1, 0, Dim(units), replicas}};
      const Layout before = split(0, rows);
      const Dim sent = sent_elements(step, {rows, columns}, before, mesh);
      std::int64_t total = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        SymbolMap symbols;
        mesh.bind(rank, &symbols);
        total += *sent.evaluate(symbols);
      }
      EXPECT_EQ(total, lacking_elements(rows, columns, ranks, rows, units, replicas))
          << ranks << " ranks, [" << rows << ", " << columns << "] to " << units << " units x "
          << replicas;
    }
  }
}

class ReportTest : public CompilerTest {};

TEST_F(ReportTest, ExplainNamesEveryValueAndExchange) {
  CompileOptions cp = options("cp=4");
  cp.typical_sizes = {{"batch", 2}, {"frames", 7}, {"height", 16}, {"width", 16}, {"words", 12}};
  const auto model = compile_text(ToyTransformer().text(), cp);
  for (const auto& node : model.main->nodes()) {
    for (const Value* output : node->outputs()) {
      EXPECT_THAT(model.explain, HasSubstr(str_cat("  ", output->name(), ": ")));
    }
  }
  EXPECT_THAT(model.explain, HasSubstr("input  text: f32[batch, words, 8]  (invariant)"));
  EXPECT_THAT(model.explain,
              HasSubstr("exchange AllToAll along cp of [l0.self.q.y, l0.self.k.y, l0.self.v.h]"));
  // q, k, v of a rank: 448 tokens of two batch elements, 64 numbers, 3/4 of which go elsewhere.
  EXPECT_THAT(model.explain, HasSubstr("= 172 kB"));
}

TEST_F(ReportTest, JsonHoldsTheSame) {
  const auto model = compile_text(ToyTransformer().text(), options("cp=4"));
  const std::string text = explain_json(model, {{"batch", 2}});
  EXPECT_THAT(text,
              AllOf(HasSubstr("\"mesh\": \"cp=4\""), HasSubstr("\"kind\": \"AllToAll\""),
                    HasSubstr("\"sent_bytes_all_ranks\""), HasSubstr("\"flops_replicated\"")));
}

TEST_F(ReportTest, DotHasABoxForEveryNode) {
  const auto model = compile_text(ToyTransformer().text(), options("cp=4"));
  const std::string dot = to_dot(*model.main, model.layouts, model.mesh);
  std::size_t boxes = 0;
  for (std::size_t at = dot.find("[label=\""); at != std::string::npos;
       at = dot.find("[label=\"", at + 1)) {
    ++boxes;
  }
  EXPECT_GE(boxes, model.main->nodes().size());
  EXPECT_THAT(dot, HasSubstr("fillcolor=gold"));
  EXPECT_TRUE(dot.ends_with("}\n"));
}

TEST_F(ReportTest, FlopsOfProductsAreTwoForEachMultiplication) {
  const auto graph = parse(R"(graph @g (%x: f32[b, 16]) {
    %w = constant f32[16, 64] data
    %y = MatMul(%x, %w)
    return %y
  })");
  EXPECT_EQ(node_flops(*graph->nodes().front()), Dim(2 * 16 * 64) * Dim::symbol("b"));
}

TEST_F(ReportTest, ProgressNamesThePassesInOrder) {
  std::vector<std::string> names;
  CompileOptions cp = options("cp=2");
  cp.progress = [&](std::string_view name, double seconds) {
    names.emplace_back(name);
    EXPECT_GE(seconds, 0);
  };
  compile_text(ToyTransformer().text(), cp);
  ASSERT_GT(names.size(), 10U);
  EXPECT_EQ(names[1], "simplify");
  EXPECT_EQ(names.back(), "report");
}

TEST(UnitsHeldElsewhere, CountsEachUnitOnceForEachRank) {
  const Dim rank = Dim::symbol("rank.cp");
  for (std::int64_t units = 1; units <= 9; ++units) {
    for (std::int64_t replicas = 1; replicas <= 4; ++replicas) {
      for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
        // Copy i is of unit i / replicas; deal the copies out.
        std::vector<std::set<std::int64_t>> held(static_cast<std::size_t>(ranks));
        for (std::int64_t r = 0; r < ranks; ++r) {
          const std::int64_t first = part_offset(units * replicas, ranks, r);
          for (std::int64_t i = 0; i < part_size(units * replicas, ranks, r); ++i) {
            held[static_cast<std::size_t>(r)].insert((first + i) / replicas);
          }
        }
        for (std::int64_t self = 0; self < ranks; ++self) {
          std::int64_t expected = 0;
          for (std::int64_t r = 0; r < ranks; ++r) {
            if (r != self) expected += std::ssize(held[static_cast<std::size_t>(r)]);
          }
          const Dim counted = units_held_elsewhere(units, replicas, ranks, rank);
          ASSERT_EQ(*counted.evaluate({{"rank.cp", self}}), expected)
              << units << " units x" << replicas << ", rank " << self << " of " << ranks;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti
