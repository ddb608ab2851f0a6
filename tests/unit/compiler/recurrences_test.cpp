// Recurrences over frames take heads: pieces of the frames would wait for each other.
#include "compiler/recurrences.h"

#include "base/str_cat.h"
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

// 5 frames of 6 tokens with `heads` heads of 8. The state of a frame is the one before it times a
// matrix of the frame's keys, plus one of its keys and values; the frame's queries read it. Behind
// it all tokens attend to each other.
std::string recurrence(int heads) {
  const std::string width = str_cat(heads * 8);
  const std::string h = str_cat(heads);
  std::string text = str_cat("graph @g (%x: f32[1, 30, ", width, "]) {\n");
  for (const char* name : {"q", "k", "v"}) {
    text += str_cat("%w", name, " = constant f32[", width, ", ", width, "] data\n");
    text += str_cat("%", name, "m = MatMul(%x, %w", name, ")\n");
    text += str_cat("%", name, "g = Reshape(%", name, "m) {shape = dims[1, 5, 6, ", h, ", 8]}\n");
    text += str_cat("%", name, " = Transpose(%", name, "g) {perm = [0, 3, 1, 2, 4]}\n");
  }
  text += R"(
    %kt = Transpose(%k) {perm = [0, 1, 2, 4, 3]}
    %vt = Transpose(%v) {perm = [0, 1, 2, 4, 3]}
    %w = MatMul(%kt, %k)
    %u = MatMul(%vt, %k)
)";
  std::string states;
  for (int t = 0; t < 5; ++t) {
    for (const char* name : {"w", "u"}) {
      text += str_cat("%", name, "r", t, " = Slice(%", name, ") {axes = [2], starts = dims[", t,
                      "], ends = dims[", t + 1, "], steps = [1]}\n");
      text += str_cat("%", name, t, " = Reshape(%", name, "r", t, ") {shape = dims[1, ", h,
                      ", 8, 8]}\n");
    }
    const std::string before = t == 0 ? "%u0" : str_cat("%s", t - 1);
    text += str_cat("%p", t, " = MatMul(", before, ", %w", t, ")\n");
    text += str_cat("%s", t, " = Add(%p", t, ", %u", t, ")\n");
    text += str_cat("%f", t, " = Reshape(%s", t, ") {shape = dims[1, ", h, ", 1, 8, 8]}\n");
    states += str_cat(t == 0 ? "" : ", ", "%f", t);
  }
  text += str_cat("%s = Concat(", states, ") {axis = 2}\n");
  text += "%o = MatMul(%q, %s)\n%ot = Transpose(%o) {perm = [0, 2, 3, 1, 4]}\n";
  text += str_cat("%of = Reshape(%ot) {shape = dims[1, 30, ", width, "]}\n");
  text += str_cat("%wo = constant f32[", width, ", ", width, "] data\n%om = MatMul(%of, %wo)\n");
  text += "%y = Add(%x, %om)\n";
  text += str_cat("%ah = Reshape(%y) {shape = dims[1, 30, ", h, ", 8]}\n");
  text += R"(%a = Attention(%ah, %ah, %ah) {scale = 0.1, is_causal = 0, layout = "bshd"}
)";
  text += str_cat("%af = Reshape(%a) {shape = dims[1, 30, ", width, "]}\n");
  return text + "%z = MatMul(%af, %wo)\nreturn %z\n}";
}

class RecurrencesTest : public CompilerTest {
 protected:
  void expect_equal(const std::string& text, const CompiledModel& model, std::int64_t width) {
    const NamedTensors inputs = {{"x", random_f32({1, 30, width}, 1)}};
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*parse_model(text), inputs, {});
    const auto found = interpreter.run(model, inputs);
    ASSERT_TRUE(right.ok() && found.ok()) << found.status().to_string();
    for (const auto& outputs : *found) {
      EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5);
    }
  }
};

TEST_F(RecurrencesTest, RowsAndHeadsAreFound) {
  const auto graph = parse_model(recurrence(4));
  const std::vector<RecurrenceRows> found = recurrence_rows(*graph);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rows, graph->find_value("w"));
  EXPECT_EQ(found[0].heads, 1);
}

TEST_F(RecurrencesTest, QueriesKeysAndValuesOfOneTensorAreNone) {
  const auto graph = parse(R"(graph @g (%qkv: f32[3, 4, 8, 8]) {
    %q = Slice(%qkv) {axes = [0], starts = dims[0], ends = dims[1], steps = [1]}
    %k = Slice(%qkv) {axes = [0], starts = dims[1], ends = dims[2], steps = [1]}
    %v = Slice(%qkv) {axes = [0], starts = dims[2], ends = dims[3], steps = [1]}
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %s = MatMul(%q, %kt)
    %p = Softmax(%s) {axis = 3}
    %y = MatMul(%p, %v)
    return %y
  })");
  EXPECT_TRUE(recurrence_rows(*graph).empty());
}

TEST_F(RecurrencesTest, StepsTakeHeads) {
  const std::string text = recurrence(4);
  for (const char* mesh : {"cp=2", "cp=3", "cp=4"}) {
    const auto model = compile_text(text, options(mesh));
    // The output; nothing else comes together. Heads need no exchange in front: the input is whole.
    EXPECT_EQ(count_nodes(*model.main, "AllGather"), 1) << model.explain;
    EXPECT_EQ(count_nodes(*model.main, "AllToAll"), 3) << model.explain;
    expect_equal(text, model, 32);
  }
}

TEST_F(RecurrencesTest, FewerHeadsThanRanksAreLeftWhole) {
  const std::string text = recurrence(2);
  const auto model = compile_text(text, options("cp=4"));
  expect_equal(text, model, 16);
}

}  // namespace
}  // namespace tutti
