#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "server/http/compression.h"
#include "server/http/routes.h"
#include "server/http/text.h"
#include "server/json/reader.h"
#include "server/json/tensor.h"
#include "server/json/write.h"
#include "server/restrictions.h"

namespace tutti::server {
namespace {

using ::testing::HasSubstr;

Status skip_all(std::string_view text) {
  JsonReader reader(text);
  if (Status status = reader.skip(); !status.ok()) return status;
  return reader.expect_end();
}

TEST(JsonReader, TakesWhatRfc8259Takes) {
  for (const char* text :
       {"0", "-0", "1.5e+7", "[]", "{}", " [ 1 , { \"a\" : null } ] ", "\"\\u00e9\\ud83d\\ude00\"",
        "true", "NaN", "[-Infinity]", "\"\xC3\xA9\""}) {
    EXPECT_TRUE(skip_all(text).ok()) << text;
  }
  for (const char* text : {"",
                           "01",
                           "1.",
                           ".5",
                           "+1",
                           "1e",
                           "-",
                           "[1,]",
                           "[,1]",
                           "{\"a\":1,}",
                           "{1:2}",
                           "{\"a\" 1}",
                           "\"",
                           "\"\\x\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\u0041\"",
                           "\"\n\"",
                           "tru",
                           "nan",
                           "1 2",
                           "'a'",
                           "\"\xff\"",
                           "\"\xC0\x80\"",
                           "\"\xED\xA0\x80\"",
                           "{\"a\":1,\"a\":2}"}) {
    EXPECT_EQ(skip_all(text).code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(JsonReader, DepthIsBounded) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_TRUE(skip_all(deep).ok());
  EXPECT_THAT(skip_all("[" + deep + "]").message(), HasSubstr("100 deep"));
  EXPECT_THAT(skip_all(std::string(1 << 20, '[')).message(), HasSubstr("100 deep"));
}

TEST(JsonReader, WholeNumbersStayWhole) {
  const auto read = [](std::string_view text) { return *JsonReader(text).read_number(); };
  EXPECT_EQ(read("-9223372036854775808"), JsonNumber(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(read("18446744073709551615"), JsonNumber(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(read("18446744073709551616"), JsonNumber(18446744073709551616.0));
  EXPECT_EQ(read("1e400"), JsonNumber(std::numeric_limits<double>::infinity()));
}

TEST(JsonString, EscapesWhatJsonCannotHold) {
  EXPECT_EQ(json_string("a\"\\\n\x01\x7f\xC3\xA9"), "\"a\\\"\\\\\\n\\u0001\\u007f\xC3\xA9\"");
  EXPECT_EQ(json_string("\xff"), "\"\xEF\xBF\xBD\"");
}

TEST(TensorJson, ValuesOutsideTheTypeAreNamed) {
  EXPECT_THAT(tensor_from_json("[1,256]", DType::kUInt8).status().message(),
              HasSubstr("element 1 is 256, outside UINT8"));
  EXPECT_THAT(tensor_from_json("[1e300]", DType::kFloat32).status().message(),
              HasSubstr("outside FP32"));
  EXPECT_THAT(tensor_from_json("[65520]", DType::kFloat16).status().message(),
              HasSubstr("outside FP16"));
  EXPECT_TRUE(tensor_from_json("[65504, Infinity]", DType::kFloat16).ok());
  EXPECT_FALSE(tensor_from_json("[2]", DType::kBool).ok());
}

TEST(TensorJson, BytesThatAreNoTextAreRefused) {
  const std::string data("\x01\0\0\0\xff", 5);
  std::string out;
  EXPECT_THAT(append_tensor_json(std::as_bytes(std::span(data)), DType::kString, &out).message(),
              HasSubstr("binary data"));
}

TEST(Compression, RoundTripsInPiecesAndStopsAtTheLimit) {
  const std::string text(3 << 20, 'x');
  const std::vector<std::span<const std::byte>> pieces = {
      std::as_bytes(std::span(text)).first(1), {}, std::as_bytes(std::span(text)).subspan(1)};
  for (const Coding coding : {Coding::kGzip, Coding::kDeflate}) {
    const auto packed = compress(pieces, coding);
    ASSERT_TRUE(packed.ok());
    const auto plain = decompress(packed->span(), coding, text.size());
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(plain->data()), plain->size()), text);
    EXPECT_THAT(decompress(packed->span(), coding, text.size() - 1).status().message(),
                HasSubstr("--http-max-input-size"));
    EXPECT_FALSE(decompress(packed->span().first(packed->size() - 1), coding, 1 << 30).ok());
  }
}

TEST(Compression, AcceptEncodingWeighs) {
  EXPECT_EQ(choose_coding(""), Coding::kIdentity);
  EXPECT_EQ(choose_coding("gzip, deflate"), Coding::kGzip);
  EXPECT_EQ(choose_coding("gzip;q=0.1, deflate;q=0.5"), Coding::kDeflate);
  EXPECT_EQ(choose_coding("gzip;q=0, br"), Coding::kIdentity);
}

TEST(Routes, PathsMatchWhole) {
  PathNames names;
  const HttpRoute* route = find_route("/v2/models/a%2Fb/versions/12/infer", &names);
  ASSERT_NE(route, nullptr);
  EXPECT_EQ(route->call, HttpCall::kInfer);
  EXPECT_EQ(names.model, "a/b");
  EXPECT_EQ(names.version, "12");
  for (const char* path : {"", "/", "v2", "/v2/", "/v2/models", "/v2/models/", "/v2/models/a/",
                           "/v2/models/a/versions/1a", "/v2/models/a/versions//infer",
                           "/v2/models/%/infer", "//v2", "/v2/models/a/versions/1/trace/setting"}) {
    EXPECT_EQ(find_route(path, &names), nullptr) << path;
  }
}

TEST(Text, Base64) {
  EXPECT_EQ(base64_decoded(""), "");
  EXPECT_EQ(base64_decoded("QQ=="), "A");
  EXPECT_EQ(base64_decoded("QUI="), "AB");
  EXPECT_EQ(base64_decoded("QUJD"), "ABC");
  for (const char* text : {"Q", "QQ=", "Q===", "QQ==QUJD", "Q*==", "QU\nI"}) {
    EXPECT_EQ(base64_decoded(text), std::nullopt) << text;
  }
}

TEST(Restrictions, FlagsNameGroups) {
  Restrictions restrictions;
  ASSERT_TRUE(restrictions.add("health,shared-memory:key=a=b").ok());
  EXPECT_EQ(restrictions.find(CallGroup::kHealth)->value, "a=b");
  EXPECT_EQ(restrictions.find(CallGroup::kInference), nullptr);
  EXPECT_THAT(restrictions.add("trace,health:k=v").message(), HasSubstr("twice"));
  EXPECT_THAT(restrictions.add("nope:k=v").message(), HasSubstr("model-repository"));
}

}  // namespace
}  // namespace tutti::server
