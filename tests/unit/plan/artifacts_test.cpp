// The section of a plan file for what backends have made: there and back, replaced, forged.
#include "plan/artifacts.h"

#include <gmock/gmock.h>

#include "artifacts.pb.h"
#include "plan_fixture.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

Artifact artifact(const std::string& name, std::uint64_t key, std::string content) {
  return {"cuda", "cubin", "sm_90", "NVRTC 13.0", name, {key, 7}, std::move(content)};
}

class PlanArtifacts : public PlanFixture {
 protected:
  Plan plan_with(std::vector<Artifact> artifacts) {
    Plan plan = make_plan();
    plan.artifacts = std::move(artifacts);
    return plan;
  }

  std::vector<Artifact> read_back() {
    const auto plan = read_plan(path_, ops_);
    EXPECT_TRUE(plan.ok()) << plan.status().to_string();
    return plan.ok() ? plan->artifacts : std::vector<Artifact>();
  }

  // What the reader says of a plan with this section in it, which its digest covers.
  std::string error_of(const std::string& section) {
    EXPECT_TRUE(write_plan(make_plan(), path_).ok());
    const std::string bytes = read_file(path_);
    std::string body(bytes.begin(), bytes.end() - 50);  // without the seal
    body += section;
    seal(&body);
    write_file(path_, body);
    return error_of_read();
  }

  static std::string section_of(const plan::ArtifactsProto& proto) {
    std::string section = {'\xca', '\xb5', '\x03'};  // field 7001, bytes
    const std::string content = proto.SerializeAsString();
    EXPECT_LT(content.size(), 128);
    return section + static_cast<char>(content.size()) + content;
  }
};

TEST_F(PlanArtifacts, ComeBackByteForByte) {
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes.push_back(static_cast<char>(i));
  const std::vector<Artifact> given = {
      artifact("row", 1, all_bytes),
      artifact("row", 2, ""),
      {"other", "choice", "a card", "", "shape", {~0ULL, ~1ULL}, "x"}};
  ASSERT_TRUE(write_plan(plan_with(given), path_).ok());
  EXPECT_EQ(read_back(), given);
}

TEST_F(PlanArtifacts, ArePassedOverByAReaderOfOnnxModels) {
  ASSERT_TRUE(write_plan(make_plan(), path_).ok());
  onnx::ModelProto without;
  ASSERT_TRUE(without.ParseFromString(read_file(path_)));
  ASSERT_TRUE(write_plan(plan_with({artifact("row", 1, "code")}), path_).ok());
  onnx::ModelProto with;
  ASSERT_TRUE(with.ParseFromString(read_file(path_)));
  with.DiscardUnknownFields();
  // The digest aside, which is the last entry.
  without.mutable_metadata_props()->RemoveLast();
  with.mutable_metadata_props()->RemoveLast();
  EXPECT_EQ(with.SerializeAsString(), without.SerializeAsString());
}

TEST_F(PlanArtifacts, TakeNoRoomWhereThereAreNone) {
  ASSERT_TRUE(write_plan(make_plan(), path_).ok());
  const std::string before = read_file(path_);
  ASSERT_TRUE(replace_artifacts(path_, {artifact("row", 1, "code")}).ok());
  EXPECT_NE(read_file(path_), before);
  ASSERT_TRUE(replace_artifacts(path_, {}).ok());
  EXPECT_EQ(read_file(path_), before);
}

TEST_F(PlanArtifacts, AreReplacedWithoutTouchingTheRest) {
  ASSERT_TRUE(write_plan(plan_with({artifact("row", 1, "code")}), path_).ok());
  const std::string data = read_file(path_ + ".data");
  const std::vector<Artifact> others = {artifact("add", 5, "more code")};
  ASSERT_TRUE(replace_artifacts(path_, others).ok());
  EXPECT_EQ(read_back(), others);
  EXPECT_EQ(read_file(path_ + ".data"), data);
}

TEST_F(PlanArtifacts, AreNotReplacedInADamagedPlan) {
  ASSERT_TRUE(write_plan(make_plan(), path_).ok());
  std::string bytes = read_file(path_);
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  write_file(path_, bytes);
  EXPECT_THAT(replace_artifacts(path_, {}).message(),
              ::testing::AllOf(HasSubstr(path_), HasSubstr("damaged or truncated")));
  EXPECT_EQ(read_file(path_), bytes);
}

TEST(MergedArtifacts, StandInPlaceOfThoseWithTheSameKey) {
  std::vector<Artifact> artifacts = {artifact("b", 2, "old"), artifact("a", 1, "stays")};
  merge_artifacts({artifact("c", 3, "new"), artifact("b", 2, "newer")}, &artifacts);
  EXPECT_EQ(artifacts, (std::vector<Artifact>{artifact("a", 1, "stays"), artifact("b", 2, "newer"),
                                              artifact("c", 3, "new")}));
}

TEST_F(PlanArtifacts, ThatWereForgedAreErrors) {
  plan::ArtifactsProto proto;
  proto.set_format(1);
  plan::ArtifactProto* one = proto.add_artifact();
  one->set_backend("cuda");
  one->set_kind("cubin");
  one->set_name("row");
  one->set_key(std::string(16, 'k'));
  const std::string good = section_of(proto);
  EXPECT_THAT(error_of(good + good), HasSubstr("two sections of artifacts"));
  EXPECT_THAT(error_of(good.substr(0, good.size() - 1)), HasSubstr("no ONNX model"));
  EXPECT_THAT(error_of(good.substr(0, 3) + "\x02\x08\xff"), HasSubstr("does not parse"));

  proto.set_format(2);
  EXPECT_THAT(error_of(section_of(proto)), HasSubstr("artifacts of format 2, expected 1"));
  proto.set_format(1);
  one->set_key("short");
  EXPECT_THAT(error_of(section_of(proto)),
              HasSubstr("artifact 'row' has a key of 5 bytes, expected 16"));
  one->set_key(std::string(16, 'k'));
  one->set_kind("");
  EXPECT_THAT(error_of(section_of(proto)), HasSubstr("artifact 'row' has no backend or no kind"));
  one->set_kind("cubin");
  *proto.add_artifact() = *one;
  EXPECT_THAT(error_of(section_of(proto)), HasSubstr("has an artifact twice"));
}

}  // namespace
}  // namespace tutti::test
