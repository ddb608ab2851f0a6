// Whatever protobuf writes as a ModelConfig, our reader reads; whatever protobuf refuses, it
// refuses with file and line.
#include <gmock/gmock.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <random>

#include "server/config/config_file.h"

namespace tutti::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;
using ::testing::StartsWith;

class RandomMessages {
 public:
  explicit RandomMessages(unsigned seed) : random_(seed) {}

  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

  // Every kind of field has its turn; `depth` bounds what nests.
  void fill(Message* message, int depth) {
    const Reflection& reflection = *message->GetReflection();
    const auto* descriptor = message->GetDescriptor();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor& field = *descriptor->field(i);
      if (below(3) != 0) continue;
      const int count = field.is_repeated() ? 1 + below(3) : 1;
      for (int n = 0; n < count; ++n) set(reflection, message, field, depth);
    }
  }

 private:
  std::string text() {
    // Quotes, escapes, control characters, UTF-8: what a lexer may stumble over.
    static const char* const kPieces[] = {"a",    "'",    "\"",       "\\", "\n",
                                          "\t",   "#",    "{",        "]",  " ",
                                          "\x01", "\x7f", "\xc3\xa9", "0",  "\xe2\x82\xac"};
    std::string made;
    for (int i = below(6); i > 0; --i) made += kPieces[below(std::size(kPieces))];
    return made;
  }

  void set(const Reflection& reflection, Message* message, const FieldDescriptor& field,
           int depth) {
    const bool repeats = field.is_repeated();
    std::int64_t number = static_cast<std::int64_t>(random_());
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (depth == 0) return;
        return fill(repeats ? reflection.AddMessage(message, &field)
                            : reflection.MutableMessage(message, &field),
                    depth - 1);
      case FieldDescriptor::CPPTYPE_STRING:
        return repeats ? reflection.AddString(message, &field, text())
                       : reflection.SetString(message, &field, text());
      case FieldDescriptor::CPPTYPE_BOOL:
        return repeats ? reflection.AddBool(message, &field, number % 2 == 0)
                       : reflection.SetBool(message, &field, number % 2 == 0);
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* value = field.enum_type()->value(below(field.enum_type()->value_count()));
        return repeats ? reflection.AddEnum(message, &field, value)
                       : reflection.SetEnum(message, &field, value);
      }
      case FieldDescriptor::CPPTYPE_INT32: {
        const auto small = static_cast<std::int32_t>(number);
        return repeats ? reflection.AddInt32(message, &field, small)
                       : reflection.SetInt32(message, &field, small);
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        const auto small = static_cast<std::uint32_t>(number);
        return repeats ? reflection.AddUInt32(message, &field, small)
                       : reflection.SetUInt32(message, &field, small);
      }
      case FieldDescriptor::CPPTYPE_INT64:
        return repeats ? reflection.AddInt64(message, &field, number)
                       : reflection.SetInt64(message, &field, number);
      case FieldDescriptor::CPPTYPE_UINT64: {
        const auto large = static_cast<std::uint64_t>(number);
        return repeats ? reflection.AddUInt64(message, &field, large)
                       : reflection.SetUInt64(message, &field, large);
      }
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const float value = static_cast<float>(number) / 1024;
        return repeats ? reflection.AddFloat(message, &field, value)
                       : reflection.SetFloat(message, &field, value);
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const double value = static_cast<double>(number) / 1024;
        return repeats ? reflection.AddDouble(message, &field, value)
                       : reflection.SetDouble(message, &field, value);
      }
    }
  }

  std::mt19937_64 random_;
};

TEST(ConfigProperty, ReadsWhateverProtobufWrites) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomMessages random(seed);
    inference::ModelConfig config;
    random.fill(&config, 4);
    TextFormat::Printer printer;
    printer.SetSingleLineMode(seed % 2 == 1);
    printer.SetUseShortRepeatedPrimitives(seed % 3 == 1);
    printer.SetUseUtf8StringEscaping(seed % 5 == 1);
    std::string text;
    ASSERT_TRUE(printer.PrintToString(config, &text));
    const auto file = ConfigFile::parse(text, "config.pbtxt");
    ASSERT_TRUE(file.ok()) << seed << ": " << file.status().message() << "\n" << text;
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(file->config(), config))
        << seed << ":\n"
        << text;
  }
}

TEST(ConfigProperty, RefusesWhatProtobufRefuses) {
  int refused = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomMessages random(seed);
    inference::ModelConfig config;
    random.fill(&config, 3);
    std::string text;
    ASSERT_TRUE(TextFormat::PrintToString(config, &text));
    if (text.empty()) continue;
    // Something goes, or comes.
    const auto at = static_cast<std::size_t>(random.below(static_cast<int>(text.size())));
    static constexpr std::string_view kOthers = "{}[]:\"'<>#,;x7-\n";
    if (seed % 2 == 0) {
      text.erase(at, 1);
    } else {
      text.insert(at, 1, kOthers[static_cast<std::size_t>(random.below(kOthers.size()))]);
    }
    inference::ModelConfig expected;
    TextFormat::Parser parser;
    class Quiet final : public google::protobuf::io::ErrorCollector {
      void AddError(int, int, const std::string&) override {}
    } quiet;
    parser.RecordErrorsTo(&quiet);
    const bool is_good = parser.ParseFromString(text, &expected);
    const auto file = ConfigFile::parse(text, "config.pbtxt");
    ASSERT_EQ(file.ok(), is_good) << seed << ": " << file.status().message() << "\n" << text;
    if (is_good) {
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(file->config(), expected));
    } else {
      EXPECT_THAT(file.status().message(), StartsWith("config.pbtxt:"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 100) << "the changes must matter";
}

}  // namespace
}  // namespace tutti::server
