#include "server/config/config_file.h"

#include <gmock/gmock.h>

namespace tutti::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ConfigFile, ReadsTritonsTextFormat) {
  const auto file = ConfigFile::parse(R"(
    name: "clips"
    backend: "tutti"
    max_batch_size: 0
    input [ { name: "latents" data_type: TYPE_FP32 dims: [ 16, -1 ] } ]
    instance_group [ { kind: KIND_MODEL count: 1 } ]
    parameters { key: "enable_multi_device" value: { string_value: "true" } }
  )",
                                      "config.pbtxt");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->config().name(), "clips");
  EXPECT_EQ(file->config().input(0).dims(1), -1);
  EXPECT_EQ(file->config().instance_group(0).kind(), inference::ModelInstanceGroup::KIND_MODEL);
  EXPECT_EQ(file->config().parameters().at("enable_multi_device").string_value(), "true");
}

TEST(ConfigFile, UnknownFieldIsAnErrorWithFileLineAndField) {
  const auto file = ConfigFile::parse("name: \"x\"\nmax_batch: 3\n", "m/config.pbtxt");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(file.status().message(), StartsWith("m/config.pbtxt:2:"));
  EXPECT_THAT(file.status().message(), HasSubstr("max_batch"));
}

TEST(ConfigFile, BadValuesAndBrokenSyntaxAreErrorsWithTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"max_batch_size: \"many\"", ":1:"},
      {"input [ {\n data_type: TYPE_FLOAT } ]", ":2:"},
      {"input [ {\n\n", ":3:"},
      {"instance_group { kind: KIND_TPU }", ":1:"},
      {"max_batch_size: 99999999999", ":1:"},
      {"name: \"x\" name: \"y\"", ":1:"},
  };
  for (const auto& [text, line] : cases) {
    const auto file = ConfigFile::parse(text, "c");
    ASSERT_FALSE(file.ok()) << text;
    EXPECT_THAT(file.status().message(), StartsWith(std::string("c") + line)) << text;
  }
}

TEST(ConfigFile, ErrorsAboutFieldsNameTheirLine) {
  const auto file = ConfigFile::parse(
      "name: \"x\"\n"
      "input [\n"
      "  { name: \"a\" },\n"
      "  { name: \"b\"\n"
      "    dims: [ 1,\n"
      "            2 ] }\n"
      "]\n"
      "parameters { key: \"one\" value: { string_value: \"1\" } }\n"
      "parameters { key: \"two\" value: { string_value: \"2\" } }\n",
      "c");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->location("name"), "c:1");
  EXPECT_EQ(file->location("input[1].name"), "c:4");
  EXPECT_EQ(file->location("input[1].dims[1]"), "c:5");  // where the list begins
  // What the file does not hold has the line of what is around it.
  EXPECT_EQ(file->location("input[0].data_type"), "c:2");
  EXPECT_EQ(file->location("parameters[\"two\"]"), "c:9");
  EXPECT_EQ(file->location("max_batch_size"), "c");
  EXPECT_EQ(ConfigFile::parse("\nparameters { key: 'k' }", "c")->location("parameters[\"k\"]"),
            "c:2");
  EXPECT_EQ(file->error("input[0].data_type", "is absent").message(),
            "c:2: input[0].data_type: is absent");
}

TEST(ConfigFile, AbsentFileIsAnEmptyConfiguration) {
  const ConfigFile file = ConfigFile::absent("m/config.pbtxt");
  EXPECT_EQ(file.config().ByteSizeLong(), 0U);
  EXPECT_EQ(file.error("backend", "bad").message(), "m/config.pbtxt: backend: bad");
}

TEST(ConfigFile, ReadingAFolderOrNothingIsAnError) {
  EXPECT_FALSE(ConfigFile::read("/").ok());
  EXPECT_FALSE(ConfigFile::read("/no/such/config.pbtxt").ok());
}

}  // namespace
}  // namespace tutti::server
