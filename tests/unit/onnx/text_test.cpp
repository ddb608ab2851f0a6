// Texts that are no UTF-8 are refused where they come in: those who read them later cannot.
#include "model_fixture.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

class TextTest : public ModelFixture {
 protected:
  TextTest() {
    add_input("x", {"n"});
    add_node("Identity", {"x"}, {"y"});
    add_output("y");
  }
};

TEST_F(TextTest, RefusesNamesThatAreNoUtf8) {
  graph().mutable_node(0)->set_name("a\xff");
  EXPECT_EQ(error(), "graph.node[0].name 'a\\xff' is no UTF-8");
}

TEST_F(TextTest, RefusesTextsOfAttributesThatAreNoUtf8) {
  auto* attribute = add_attribute(graph().mutable_node(0), "a", onnx::AttributeProto::STRING);
  attribute->set_s("\xc3");
  EXPECT_EQ(error(), "graph.node[0].attribute[0].s '\\xc3' is no UTF-8");
  attribute->clear_s();
  attribute->add_strings("good");
  attribute->add_strings("\x80 bad");
  EXPECT_EQ(error(), "graph.node[0].attribute[0].strings[1] '\\x80 bad' is no UTF-8");
}

TEST_F(TextTest, RefusesTextsOutsideTheGraph) {
  model_.add_metadata_props()->set_value("\xed\xa0\x80");  // half of a surrogate pair
  EXPECT_EQ(error(), "metadata_props[0].value '\\xed\\xa0\\x80' is no UTF-8");
}

TEST_F(TextTest, TakesNamesInAnyLanguageAndRawDataOfAnyBytes) {
  graph().mutable_node(0)->set_name("größe 名前");
  auto* tensor = add_initializer("w", onnx::TensorProto::UINT8, {2});
  tensor->set_raw_data("\xff\xfe");
  read_ok();
}

}  // namespace
}  // namespace tutti::test
