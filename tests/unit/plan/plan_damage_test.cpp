// Plans that were cut, flipped or forged are errors, never crashes.
#include <gmock/gmock.h>

#include <random>

#include "plan_fixture.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

class PlanDamageTest : public PlanFixture {
 protected:
  void SetUp() override {
    PlanFixture::SetUp();
    const Status status = write_plan(make_plan(), path_);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  std::string error_after(const std::function<void(onnx::ModelProto*)>& change) {
    tamper(change);
    const std::string message = error_of_read();
    EXPECT_TRUE(write_plan(make_plan(), path_).ok());
    return message;
  }

  static void set_external(onnx::TensorProto* tensor, const std::string& key,
                           const std::string& value) {
    for (auto& entry : *tensor->mutable_external_data()) {
      if (entry.key() == key) entry.set_value(value);
    }
  }
};

TEST_F(PlanDamageTest, TruncatedAtEvery97thByteIsAnError) {
  const std::string bytes = read_file(path_);
  for (std::size_t length = 0; length < bytes.size(); length += 97) {
    write_file(path_, bytes.substr(0, length));
    EXPECT_THAT(error_of_read(), HasSubstr("damaged or truncated")) << length;
  }
}

TEST_F(PlanDamageTest, EverySingleFlippedBitIsAnError) {
  std::string bytes = read_file(path_);
  ASSERT_TRUE(unseal(std::as_bytes(std::span(bytes))).ok());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto flip = [&] { bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8)); };
    flip();
    EXPECT_FALSE(unseal(std::as_bytes(std::span(bytes))).ok()) << bit;
    if (bit % 97 == 0) {
      write_file(path_, bytes);
      EXPECT_THAT(error_of_read(), HasSubstr("damaged or truncated")) << bit;
    }
    flip();
  }
}

TEST_F(PlanDamageTest, BytesAfterTheSealAreAnError) {
  write_file(path_, read_file(path_) + "x");
  EXPECT_THAT(error_of_read(), HasSubstr("damaged or truncated"));
}

TEST_F(PlanDamageTest, DamagedWeightsAreAnErrorUnlessTheCallerSkipsTheCheck) {
  const std::string data = read_file(path_ + ".data");
  std::string flipped = data;
  flipped[5000] = static_cast<char>(flipped[5000] ^ 1);
  write_file(path_ + ".data", flipped);
  EXPECT_THAT(error_of_read(), HasSubstr("data file 'model.plan.data' is damaged"));
  PlanReadOptions fast;
  fast.verify_data = false;
  EXPECT_TRUE(read_plan(path_, ops_, fast).ok());

  write_file(path_ + ".data", data.substr(0, data.size() - 1));
  EXPECT_THAT(error_of_read(), HasSubstr("has 12095 bytes, the plan was written with 12096"));
  std::filesystem::remove(path_ + ".data");
  EXPECT_THAT(error_of_read(), HasSubstr("external data 'model.plan.data'"));
}

TEST_F(PlanDamageTest, AnotherVersionIsAnErrorWithBothVersions) {
  EXPECT_THAT(error_after([](onnx::ModelProto* model) {
                model->mutable_metadata_props(1)->set_value("9.8.7");
              }),
              HasSubstr("compiled by tutti 9.8.7 (plan format 1), this is tutti " TUTTI_VERSION));
  EXPECT_THAT(error_after([](onnx::ModelProto* model) {
                model->mutable_metadata_props(0)->set_value("77");
              }),
              HasSubstr("(plan format 77)"));
}

TEST_F(PlanDamageTest, SizesPastAllReasonAreErrors) {
  constexpr std::int64_t kHuge = (std::int64_t{1} << 60) + 2;
  const auto set_dim = [](onnx::ValueInfoProto* info, int i, std::int64_t size) {
    info->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(i)->set_dim_value(
        size);
  };
  EXPECT_THAT(error_after([&](onnx::ModelProto* model) {
                set_dim(model->mutable_graph()->mutable_input(0), 0, kHuge);
              }),
              HasSubstr("value 'x': type f32[1152921504606846978, t] has size"));
  EXPECT_THAT(error_after([&](onnx::ModelProto* model) {
                set_dim(model->mutable_graph()->mutable_input(0), 0, std::int64_t{1} << 39);
                set_dim(model->mutable_graph()->mutable_input(0), 1, std::int64_t{1} << 39);
              }),
              HasSubstr("value 'x'"));
  EXPECT_THAT(error_after([&](onnx::ModelProto* model) {
                set_dim(model->mutable_graph()->mutable_value_info(0), 0, -1);
              }),
              HasSubstr("value 'v1'"));
  EXPECT_THAT(error_after([&](onnx::ModelProto* model) {
                model->mutable_graph()->mutable_initializer(0)->set_dims(0, kHuge);
              }),
              HasSubstr("tensor 'weights': external data has 4000 bytes"));
  EXPECT_THAT(error_after([&](onnx::ModelProto* model) {
                onnx::AttributeProto* shape = find_node(model, "Reshape")->mutable_attribute(0);
                shape->set_strings(0, "1152921504606846976*1152921504606846976");
              }),
              HasSubstr("node 'cut' (Reshape)"));
}

TEST_F(PlanDamageTest, WeightsOutsideTheDataFileAreErrors) {
  const auto with = [&](const char* key, const char* value) {
    return error_after([&](onnx::ModelProto* model) {
      set_external(model->mutable_graph()->mutable_initializer(0), key, value);
    });
  };
  EXPECT_THAT(with("offset", "12097"), HasSubstr("tensor 'weights'"));
  EXPECT_THAT(with("offset", "18446744073709551615"), HasSubstr("reach past its end"));
  EXPECT_THAT(with("offset", "18446744073709551616"), HasSubstr("is no whole number"));
  EXPECT_THAT(with("length", "3999"), HasSubstr("external data has 3999 bytes"));
  EXPECT_THAT(with("location", "../../../etc/passwd"), HasSubstr("not the plan's data file"));
  EXPECT_THAT(with("location", "model.plan"), HasSubstr("not the plan's data file"));
}

TEST_F(PlanDamageTest, UnknownOperatorsAndAttributesAreErrorsThatNameTheNode) {
  EXPECT_THAT(
      error_after(
          [](onnx::ModelProto* model) { find_node(model, "Reshape")->set_op_type("Teleport"); }),
      HasSubstr("node 'cut' (Teleport): operator Teleport of domain 'ai.tutti' is unknown"));
  EXPECT_THAT(error_after([](onnx::ModelProto* model) {
                find_node(model, "Reshape")->mutable_attribute(0)->set_name("form");
              }),
              HasSubstr("node 'cut' (Reshape): 'form': is no attribute of Reshape"));
  EXPECT_THAT(
      error_after([](onnx::ModelProto* model) {
        find_node(model, "Reshape")->mutable_attribute(0)->set_type(onnx::AttributeProto::FLOAT);
      }),
      HasSubstr("'shape': is of kind FLOAT"));
  EXPECT_THAT(
      error_after([](onnx::ModelProto* model) { find_node(model, "Reshape")->clear_attribute(); }),
      HasSubstr("attribute 'shape' is missing"));
}

TEST_F(PlanDamageTest, TypesThatInferenceDoesNotConfirmAreErrors) {
  EXPECT_THAT(
      error_after([](onnx::ModelProto* model) {
        model->mutable_graph()
            ->mutable_value_info(0)
            ->mutable_type()
            ->mutable_tensor_type()
            ->set_elem_type(onnx::TensorProto::INT8);
      }),
      HasSubstr("output 'v1' is i8[batch, part(t,4,rank.cp)] in the plan, inferred is f32"));
  EXPECT_THAT(error_after([](onnx::ModelProto* model) {
                model->mutable_graph()->mutable_value_info()->DeleteSubrange(0, 1);
              }),
              HasSubstr("output 'v1' has no type in the plan"));
}

TEST_F(PlanDamageTest, GraphsThatDoNotFitTogetherAreErrors) {
  EXPECT_THAT(error_after([](onnx::ModelProto* model) {
                find_node(model, "Prologue")->set_output(0, "other");
              }),
              HasSubstr("the node and its body differ"));
  EXPECT_THAT(
      error_after([](onnx::ModelProto* model) { find_node(model, "Add")->set_input(0, "sum"); }),
      HasSubstr("input 'sum' is not made before"));
  EXPECT_THAT(error_after([](onnx::ModelProto* model) {
                model->mutable_metadata_props()->DeleteSubrange(2, 1);
              }),
              HasSubstr("metadata 'tutti.mesh' is missing"));
}

// Damage of every kind inside a sealed file, so that all of it reaches the parsers.
TEST_F(PlanDamageTest, RandomlyMutatedPlansNeverCrash) {
  const std::string bytes = read_file(path_);
  const auto body = unseal(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(body.ok());
  const std::string original(reinterpret_cast<const char*>(body->data()), body->size());
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int errors = 0;
  for (int round = 0; round < 600; ++round) {
    std::string mutant = original;
    for (std::size_t n = 1 + below(4); n > 0; --n) {
      const std::size_t at = below(mutant.size());
      switch (below(4)) {
        case 0: mutant[at] = static_cast<char>(random()); break;
        case 1: mutant[at] = static_cast<char>(mutant[at] ^ (1 << below(8))); break;
        case 2: mutant.erase(at, 1 + below(16)); break;
        default: mutant.insert(at, mutant.substr(below(mutant.size()), 1 + below(16))); break;
      }
    }
    seal(&mutant);
    write_file(path_, mutant);
    errors += read_plan(path_, ops_).ok() ? 0 : 1;
  }
  EXPECT_GT(errors, 300);  // some mutations touch nothing that matters, such as a node's name
}

}  // namespace
}  // namespace tutti::test
