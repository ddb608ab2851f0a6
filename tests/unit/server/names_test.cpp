#include "server/names.h"

#include <gtest/gtest.h>

#include "server/datatype.h"

namespace tutti::server {
namespace {

TEST(ModelName, MustBeOneFolder) {
  for (const std::string name : {"", ".", "..", "../etc", "a/b", "/", "/etc"}) {
    EXPECT_EQ(check_model_name(name).code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_FALSE(check_model_name(std::string("a\0b", 3)).ok());
  for (const char* name : {"...", "clips_cp4", ".x", "a b", "模型"}) {
    EXPECT_TRUE(check_model_name(name).ok()) << name;
  }
}

TEST(RequestVersion, IsDigitsOnly) {
  EXPECT_EQ(*parse_request_version(""), 0);
  EXPECT_EQ(*parse_request_version("12"), 12);
  EXPECT_EQ(*parse_request_version("9223372036854775807"), 9223372036854775807);
  for (const char* text :
       {"-1", "+1", "1.0", "abc", " 1", "1 ", "0", "9223372036854775808", "0x1"}) {
    EXPECT_EQ(parse_request_version(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(VersionFolder, HasNoLeadingZero) {
  std::int64_t version = 0;
  EXPECT_TRUE(is_version_folder("10", &version));
  EXPECT_EQ(version, 10);
  for (const char* name : {"01", "0", "1a", "v1", "", "-1", "99999999999999999999"}) {
    EXPECT_FALSE(is_version_folder(name, &version)) << name;
  }
}

TEST(Printable, EscapesControlCharactersAndCutsLongText) {
  EXPECT_EQ(printable("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xc3\xa9"), "\\xc3\\xa9");
  EXPECT_EQ(printable(std::string(300, 'x')), std::string(200, 'x') + "...");
}

TEST(Datatype, NamesAndNumbersGoBothWays) {
  for (int number = 1; number <= 14; ++number) {
    const auto type = static_cast<inference::DataType>(number);
    const auto dtype = from_config_type(type);
    ASSERT_TRUE(dtype.ok());
    EXPECT_EQ(config_type(*dtype), type);
    EXPECT_EQ(*parse_protocol_type(protocol_type_name(*dtype)), *dtype);
  }
  EXPECT_EQ(protocol_type_name(DType::kString), "BYTES");
  EXPECT_FALSE(parse_protocol_type("FLOAT").ok());
  EXPECT_FALSE(parse_protocol_type("").ok());
  EXPECT_FALSE(from_config_type(inference::TYPE_INVALID).ok());
}

}  // namespace
}  // namespace tutti::server
