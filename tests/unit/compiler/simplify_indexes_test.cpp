// Constant indexes as slices and concatenations: by graph, and by what the graphs compute.
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

class SimplifyIndexesTest : public CompilerTest {
 protected:
  // Simplifies `before`, expects the text `after` (none: whatever it is), and that both compute the
  // same bits from the same inputs.
  void expect_same(std::string_view before, std::string_view after, const SymbolMap& sizes = {}) {
    const auto plain = parse_model(before);
    const auto simple = parse_model(before);
    const Status status = simplify(*simple, options());
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(simple->verify().ok()) << simple->verify().to_string();
    if (!after.empty()) {
      EXPECT_EQ(canonical(*simple), canonical(*parse(after)));
    }
    NamedTensors inputs;
    for (const Value* input : plain->inputs()) {
      inputs[input->name()] = random_f32(*evaluate(input->shape(), sizes), 7 + inputs.size());
    }
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*plain, inputs, sizes);
    const auto found = interpreter.run_whole(*simple, inputs, sizes);
    ASSERT_TRUE(right.ok() && found.ok())
        << right.status().to_string() << found.status().to_string();
    ASSERT_EQ(found->size(), right->size());
    for (std::size_t i = 0; i < right->size(); ++i) {
      EXPECT_EQ(relative_error((*found)[i], (*right)[i]), 0) << "output " << i;
    }
  }
};

TEST_F(SimplifyIndexesTest, AGatherOfNeighboursIsASlice) {
  expect_same(R"(graph @g (%x: f32[7, 4]) {
    %i = constant i64[3] [2, 3, 4]
    %y = Gather(%x, %i) {axis = 0}
    return %y
  })",
              R"(graph @g (%x: f32[7, 4]) {
    %y = Slice(%x) {axes = [0], starts = dims[2], ends = dims[5], steps = [1]}
    return %y
  })");
}

TEST_F(SimplifyIndexesTest, NegativeRowsAndEveryIntegerType) {
  for (const char* type : {"i32", "i64"}) {
    expect_same(str_cat(R"(graph @g (%x: f32[4, 7]) {
    %i = constant )",
                        type, R"([2, 1] [-3, -2]
    %y = Gather(%x, %i) {axis = 1}
    return %y
  })"),
                R"(graph @g (%x: f32[4, 7]) {
    %s = Slice(%x) {axes = [1], starts = dims[4], ends = dims[6], steps = [1]}
    %y = Reshape(%s) {shape = dims[4, 2, 1]}
    return %y
  })");
  }
}

TEST_F(SimplifyIndexesTest, SeveralRunsAreAConcatOfSlices) {
  expect_same(R"(graph @g (%x: f32[8, s]) {
    %i = constant i64[5] [6, 7, 0, 1, 2]
    %y = Gather(%x, %i) {axis = 0}
    return %y
  })",
              R"(graph @g (%x: f32[8, s]) {
    %a = Slice(%x) {axes = [0], starts = dims[6], ends = dims[8], steps = [1]}
    %b = Slice(%x) {axes = [0], starts = dims[0], ends = dims[3], steps = [1]}
    %y = Concat(%a, %b) {axis = 0}
    return %y
  })",
              {{"s", 3}});
}

TEST_F(SimplifyIndexesTest, BackwardsScatteredAndUnknownRowsStayAGather) {
  for (const char* rows :
       {"[9] [8, 7, 6, 5, 4, 3, 2, 1, 0]", "[9] [0, 2, 4, 6, 8, 10, 12, 14, 16]"}) {
    const std::string text = str_cat(R"(graph @g (%x: f32[20, 2]) {
    %i = constant i64)",
                                     rows, R"(
    %y = Gather(%x, %i) {axis = 0}
    return %y
  })");
    expect_same(text, text);
  }
  // -1 of a size that no one knows yet.
  constexpr std::string_view kLast = R"(graph @g (%x: f32[n, 2]) {
    %i = constant i64[1] [-1]
    %y = Gather(%x, %i) {axis = 0}
    return %y
  })";
  expect_same(kLast, kLast, {{"n", 4}});
}

TEST_F(SimplifyIndexesTest, GatherElementsWithOneRowOfIndexesIsASlice) {
  expect_same(R"(graph @g (%x: f32[6, 4]) {
    %i = constant i64[2, 1] [3, 4]
    %w = Expand(%i) {shape = dims[2, 4]}
    %y = GatherElements(%x, %w) {axis = 0}
    return %y
  })",
              R"(graph @g (%x: f32[6, 4]) {
    %y = Slice(%x) {axes = [0], starts = dims[3], ends = dims[5], steps = [1]}
    return %y
  })");
  expect_same(R"(graph @g (%x: f32[6, 4]) {
    %i = constant i64[2, 3] [3, 3, 3, 4, 4, 4]
    %y = GatherElements(%x, %i) {axis = 0}
    return %y
  })",
              R"(graph @g (%x: f32[6, 4]) {
    %y = Slice(%x) {axes = [1, 0], starts = dims[0, 3], ends = dims[3, 5], steps = [1, 1]}
    return %y
  })");
}

TEST_F(SimplifyIndexesTest, GatherNdOfABoxIsASlice) {
  // What x[mask] exports to: the coordinates of the true elements.
  expect_same(R"(graph @g (%x: f32[2, 4, 3]) {
    %i = constant i64[4, 2] [0, 1, 0, 2, 1, 1, 1, 2]
    %y = GatherND(%x, %i)
    return %y
  })",
              R"(graph @g (%x: f32[2, 4, 3]) {
    %s = Slice(%x) {axes = [1], starts = dims[1], ends = dims[3], steps = [1]}
    %y = Reshape(%s) {shape = dims[4, 3]}
    return %y
  })");
}

TEST_F(SimplifyIndexesTest, CoordinatesThatAreNoBoxStay) {
  constexpr std::string_view kDiagonal = R"(graph @g (%x: f32[3, 3]) {
    %i = constant i64[3, 2] [0, 0, 1, 1, 2, 2]
    %y = GatherND(%x, %i)
    return %y
  })";
  expect_same(kDiagonal, kDiagonal);
}

TEST_F(SimplifyIndexesTest, AScatterOfRowsIsAConcat) {
  expect_same(R"(graph @g (%x: f32[7, 4], %u: f32[3, 4]) {
    %i = constant i64[3, 1] [2, 3, 4]
    %y = ScatterND(%x, %i, %u)
    return %y
  })",
              R"(graph @g (%x: f32[7, 4], %u: f32[3, 4]) {
    %a = Slice(%x) {axes = [0], starts = dims[0], ends = dims[2], steps = [1]}
    %b = Slice(%x) {axes = [0], starts = dims[5], ends = dims[7], steps = [1]}
    %y = Concat(%a, %u, %b) {axis = 0}
    return %y
  })");
}

TEST_F(SimplifyIndexesTest, UpdatesGoToTheirRowsInAnyOrder) {
  expect_same(R"(graph @g (%x: f32[5, 4], %u: f32[5, 4]) {
    %i = constant i64[5, 1] [3, 4, 0, 1, 2]
    %y = ScatterND(%x, %i, %u)
    return %y
  })",
              R"(graph @g (%x: f32[5, 4], %u: f32[5, 4]) {
    %a = Slice(%u) {axes = [0], starts = dims[2], ends = dims[5], steps = [1]}
    %b = Slice(%u) {axes = [0], starts = dims[0], ends = dims[2], steps = [1]}
    %y = Concat(%a, %b) {axis = 0}
    return %y
  })");
}

TEST_F(SimplifyIndexesTest, AScatterIntoTwoAxes) {
  // x[:, 1:3] = u as coordinates of all of the first axis.
  expect_same(R"(graph @g (%x: f32[2, 4, s], %u: f32[2, 2, s]) {
    %i = constant i64[2, 2, 2] [0, 1, 0, 2, 1, 1, 1, 2]
    %y = ScatterND(%x, %i, %u)
    return %y
  })",
              R"(graph @g (%x: f32[2, 4, s], %u: f32[2, 2, s]) {
    %a = Slice(%x) {axes = [1], starts = dims[0], ends = dims[1], steps = [1]}
    %b = Slice(%x) {axes = [1], starts = dims[3], ends = dims[4], steps = [1]}
    %y = Concat(%a, %u, %b) {axis = 1}
    return %y
  })",
              {{"s", 3}});
}

TEST_F(SimplifyIndexesTest, RowsThatAreWrittenTwiceStayAScatter) {
  constexpr std::string_view kTwice = R"(graph @g (%x: f32[5, 4], %u: f32[3, 4]) {
    %i = constant i64[3, 1] [1, 2, 1]
    %y = ScatterND(%x, %i, %u) {reduction = "add"}
    return %y
  })";
  expect_same(kTwice, kTwice);
}

TEST_F(SimplifyIndexesTest, UpdatesOfUnknownLengthStayAScatter) {
  constexpr std::string_view kUnknown = R"(graph @g (%x: f32[5, 4], %u: f32[t, 4]) {
    %i = constant i64[3, 1] [1, 2, 3]
    %y = ScatterND(%x, %i, %u)
    return %y
  })";
  expect_same(kUnknown, kUnknown, {{"t", 3}});
}

TEST_F(SimplifyIndexesTest, AScatterThatAddsIsAnAddition) {
  // All rows, as when every frame of a video is noisy.
  expect_same(R"(graph @g (%x: f32[3, 2], %u: f32[3, 2]) {
    %i = constant i64[3, 1] [0, 1, 2]
    %w = Expand(%i) {shape = dims[3, 2]}
    %y = ScatterElements(%x, %w, %u) {axis = 0, reduction = "add"}
    return %y
  })",
              R"(graph @g (%x: f32[3, 2], %u: f32[3, 2]) {
    %y = Add(%x, %u)
    return %y
  })");
  // The first frame is given: only the others take their time.
  expect_same(R"(graph @g (%x: f32[5, 2], %u: f32[3, 2]) {
    %i = constant i64[3, 2] [2, 2, 3, 3, 4, 4]
    %y = ScatterElements(%x, %i, %u) {axis = 0, reduction = "add"}
    return %y
  })",
              R"(graph @g (%x: f32[5, 2], %u: f32[3, 2]) {
    %a = Slice(%x) {axes = [0], starts = dims[0], ends = dims[2], steps = [1]}
    %b = Slice(%x) {axes = [0], starts = dims[2], ends = dims[5], steps = [1]}
    %c = Add(%b, %u)
    %y = Concat(%a, %c) {axis = 0}
    return %y
  })");
}

TEST_F(SimplifyIndexesTest, AScatterOfFewerColumnsKeepsTheOthers) {
  expect_same(R"(graph @g (%x: f32[4, 3], %u: f32[2, 2]) {
    %i = constant i64[2, 2] [1, 1, 2, 2]
    %y = ScatterElements(%x, %i, %u) {axis = 0}
    return %y
  })",
              "");
}

TEST_F(SimplifyIndexesTest, AMaskOfWholeRowsChoosesBetweenSlices) {
  expect_same(R"(graph @g (%x: f32[5, s], %u: f32[5, s]) {
    %m = constant bool[5, 1] [true, true, false, false, true]
    %y = Where(%m, %x, %u)
    return %y
  })",
              R"(graph @g (%x: f32[5, s], %u: f32[5, s]) {
    %a = Slice(%x) {axes = [0], starts = dims[0], ends = dims[2], steps = [1]}
    %b = Slice(%u) {axes = [0], starts = dims[2], ends = dims[4], steps = [1]}
    %c = Slice(%x) {axes = [0], starts = dims[4], ends = dims[5], steps = [1]}
    %y = Concat(%a, %b, %c) {axis = 0}
    return %y
  })",
              {{"s", 3}});
}

TEST_F(SimplifyIndexesTest, AMaskThatFillsWithANumberStays) {
  constexpr std::string_view kMasked = R"(graph @g (%x: f32[5, 3]) {
    %m = constant bool[1, 3] [true, true, false]
    %low = constant f32[] [-1e9]
    %y = Where(%m, %x, %low)
    return %y
  })";
  expect_same(kMasked, kMasked);
}

TEST_F(SimplifyIndexesTest, AMaskThatIsAllTrueChoosesItsOperand) {
  expect_same(R"(graph @g (%x: f32[5, 3], %u: f32[3]) {
    %m = constant bool[5, 1] [false, false, false, false, false]
    %y = Where(%m, %x, %u)
    return %y
  })",
              R"(graph @g (%x: f32[5, 3], %u: f32[3]) {
    %y = Expand(%u) {shape = dims[5, 3]}
    return %y
  })");
}

TEST_F(SimplifyIndexesTest, WhatWasPackedIsFoundAgain) {
  expect_same(R"(graph @g (%text: f32[3, 4], %video: f32[5, 4]) {
    %zero = constant f32[] [0.0]
    %empty = Fill(%zero) {shape = dims[8, 4]}
    %ti = constant i64[3, 1] [0, 1, 2]
    %vi = constant i64[5, 1] [3, 4, 5, 6, 7]
    %vj = constant i64[5] [3, 4, 5, 6, 7]
    %a = ScatterND(%empty, %ti, %text)
    %b = ScatterND(%a, %vi, %video)
    %t = Slice(%b) {axes = [0], starts = dims[0], ends = dims[3], steps = [1]}
    %v = Gather(%b, %vj) {axis = 0}
    %x = Exp(%t)
    %y = Abs(%v)
    return %x, %y
  })",
              R"(graph @g (%text: f32[3, 4], %video: f32[5, 4]) {
    %x = Exp(%text)
    %y = Abs(%video)
    return %x, %y
  })");
}

TEST_F(SimplifyIndexesTest, IndexesThatCountFromASizeArePackedAndFoundAgain) {
  expect_same(R"(graph @g (%text: f32[t, 4], %video: f32[s, 4]) {
    %zero = constant f32[] [0.0]
    %from = constant i64[] [0]
    %one = constant i64[] [1]
    %empty = Fill(%zero) {shape = dims[s + t, 4]}
    %ti = Iota(%from, %one) {size = dims[t]}
    %tr = Reshape(%ti) {shape = dims[t, 1]}
    %first = Sizes() {values = dims[t]}
    %start = Reshape(%first) {shape = dims[]}
    %vi = Iota(%start, %one) {size = dims[s]}
    %vc = Cast(%vi) {to = "i32"}
    %vr = Reshape(%vc) {shape = dims[s, 1]}
    %vw = Expand(%vr) {shape = dims[s, 4]}
    %a = ScatterND(%empty, %tr, %text)
    %b = ScatterElements(%a, %vw, %video) {axis = 0}
    %x = Gather(%b, %ti) {axis = 0}
    %v = Gather(%b, %vc) {axis = 0}
    %y = Exp(%v)
    return %x, %y
  })",
              R"(graph @g (%text: f32[t, 4], %video: f32[s, 4]) {
    %y = Exp(%video)
    return %text, %y
  })",
              {{"t", 3}, {"s", 5}});
}

TEST_F(SimplifyIndexesTest, IndexesThatCountByTwoOrPastTheEndStay) {
  constexpr std::string_view kSteps = R"(graph @g (%x: f32[20, 4], %u: f32[s, 4]) {
    %from = constant i64[] [0]
    %two = constant i64[] [2]
    %one = constant i64[] [1]
    %i = Iota(%from, %two) {size = dims[s]}
    %y = Gather(%x, %i) {axis = 0}
    %j = Iota(%from, %one) {size = dims[s]}
    %k = Reshape(%j) {shape = dims[s, 1]}
    %z = ScatterND(%x, %k, %u)
    return %y, %z
  })";
  expect_same(kSteps, kSteps, {{"s", 6}});
}

TEST_F(SimplifyIndexesTest, CutsAtSymbolicJoins) {
  expect_same(R"(graph @g (%a: f32[t, 4], %b: f32[s, 4]) {
    %x = Concat(%a, %b, %a) {axis = 0}
    %y = Slice(%x) {axes = [0], starts = dims[t], ends = dims[s + t], steps = [1]}
    %z = Slice(%x) {axes = [0, 1], starts = dims[t, 1], ends = dims[s + 2*t, 3], steps = [1, 1]}
    return %y, %z
  })",
              R"(graph @g (%a: f32[t, 4], %b: f32[s, 4]) {
    %j = Concat(%b, %a) {axis = 0}
    %z = Slice(%j) {axes = [1], starts = dims[1], ends = dims[3], steps = [1]}
    return %b, %z
  })",
              {{"t", 2}, {"s", 3}});
}

TEST_F(SimplifyIndexesTest, CutsThatSizesLeaveOpenStay) {
  constexpr std::string_view kOpen = R"(graph @g (%a: f32[t, 4], %b: f32[s, 4]) {
    %x = Concat(%a, %b) {axis = 0}
    %y = Slice(%x) {axes = [0], starts = dims[0], ends = dims[3], steps = [1]}
    return %y
  })";
  expect_same(kOpen, kOpen, {{"t", 2}, {"s", 3}});
}

TEST_F(SimplifyIndexesTest, CutsMoveThroughWhatWorksOnRowsAlone) {
  expect_same(R"(graph @g (%a: f32[2, 4], %b: f32[3, 4], %shift: f32[4]) {
    %x = Concat(%a, %b) {axis = 0}
    %e = Add(%x, %shift)
    %n = RMSNormalization(%e) {axis = 1, epsilon = 0.5}
    %h = Reshape(%n) {shape = dims[5, 2, 2]}
    %p: f32[2, 2, 2], %q: f32[3, 2, 2] = Split(%h) {axis = 0, sizes = dims[2, 3]}
    return %p, %q
  })",
              R"(graph @g (%a: f32[2, 4], %b: f32[3, 4], %shift: f32[4]) {
    %ea = Add(%a, %shift)
    %na = RMSNormalization(%ea) {axis = 1, epsilon = 0.5}
    %p = Reshape(%na) {shape = dims[2, 2, 2]}
    %eb = Add(%b, %shift)
    %nb = RMSNormalization(%eb) {axis = 1, epsilon = 0.5}
    %q = Reshape(%nb) {shape = dims[3, 2, 2]}
    return %p, %q
  })");
}

TEST_F(SimplifyIndexesTest, WhatIsNeededWholeToo_IsNotComputedInPieces) {
  constexpr std::string_view kWhole = R"(graph @g (%a: f32[2, 4], %b: f32[3, 4]) {
    %x = Concat(%a, %b) {axis = 0}
    %e = Exp(%x)
    %p = Slice(%e) {axes = [0], starts = dims[0], ends = dims[2], steps = [1]}
    return %e, %p
  })";
  expect_same(kWhole, kWhole);
}

TEST_F(SimplifyIndexesTest, SlicesOfSlicesAndNeighboursMerge) {
  expect_same(R"(graph @g (%x: f32[9, 6]) {
    %a = Slice(%x) {axes = [0], starts = dims[1], ends = dims[8], steps = [1]}
    %b = Slice(%a) {axes = [0, 1], starts = dims[2, 3], ends = dims[5, 6], steps = [1, 1]}
    %c = Slice(%x) {axes = [1], starts = dims[0], ends = dims[4], steps = [1]}
    %d = Slice(%x) {axes = [1], starts = dims[4], ends = dims[6], steps = [1]}
    %e = Concat(%c, %d) {axis = 1}
    return %b, %e
  })",
              R"(graph @g (%x: f32[9, 6]) {
    %b = Slice(%x) {axes = [0, 1], starts = dims[3, 3], ends = dims[6, 6], steps = [1, 1]}
    return %b, %x
  })");
}

}  // namespace
}  // namespace tutti
