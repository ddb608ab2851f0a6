#include "server/config/config_file.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "server/names.h"

namespace tutti::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr std::uintmax_t kLargestFile = 16U << 20;

// Keeps the first error: later ones are mostly its consequences.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!message_.empty()) return;
    message_ = message;
    line_ = line;
    column_ = column;
  }
  Status status(const std::string& path) const {
    return invalid_argument(path, ":", line_ + 1, ":", column_ + 1, ": ", printable(message_));
  }

 private:
  std::string message_;
  int line_ = 0;
  int column_ = 0;
};

// One step of a field path: name, and index or key in brackets where there is one.
struct Step {
  std::string_view name;
  int index = -1;
  std::string_view key;
};

Step next_step(std::string_view* path) {
  Step step;
  step.name = path->substr(0, path->find_first_of(".["));
  path->remove_prefix(step.name.size());
  if (path->starts_with('[')) {
    const std::string_view inside = path->substr(1, path->find(']') - 1);
    if (inside.starts_with('"')) {
      step.key = inside.substr(1, inside.rfind('"') - 1);
    } else {
      std::from_chars(inside.data(), inside.data() + inside.size(), step.index);
    }
    path->remove_prefix(std::min(path->size(), inside.size() + 2));
  }
  if (path->starts_with('.')) path->remove_prefix(1);
  return step;
}

}  // namespace

Result<ConfigFile> ConfigFile::read(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return invalid_argument(path, ": cannot be read: ", error.message());
  if (size > kLargestFile) {
    return invalid_argument(path, ": ", size, " bytes, expected at most ", kLargestFile);
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return invalid_argument(path, ": cannot be opened");
  return parse(std::string(std::istreambuf_iterator<char>(stream), {}), path);
}

Result<ConfigFile> ConfigFile::parse(std::string text, std::string path) {
  auto config = std::make_shared<inference::ModelConfig>();
  auto lines = std::make_shared<TextFormat::ParseInfoTree>();
  FirstError errors;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(lines.get());
  if (!parser.ParseFromString(text, config.get())) return errors.status(path);
  ConfigFile file;
  file.path_ = std::move(path);
  file.text_ = std::move(text);
  file.config_ = std::move(config);
  file.lines_ = std::move(lines);
  return file;
}

ConfigFile ConfigFile::absent(std::string path) {
  ConfigFile file;
  file.path_ = std::move(path);
  file.config_ = std::make_shared<inference::ModelConfig>();
  return file;
}

std::string ConfigFile::location(std::string_view field) const {
  const int line = line_of(field);
  return line > 0 ? str_cat(path_, ":", line) : path_;
}

int ConfigFile::line_of(std::string_view field) const {
  int line = 0;
  const Descriptor* message = inference::ModelConfig::descriptor();
  const TextFormat::ParseInfoTree* tree = lines_.get();
  while (tree != nullptr && message != nullptr && !field.empty()) {
    const Step step = next_step(&field);
    const FieldDescriptor* known = message->FindFieldByName(std::string(step.name));
    if (known == nullptr) break;
    if (!step.key.empty()) {
      // The tree has no map keys; the key's quoted text is as good as unique in such a file.
      const std::size_t at = std::min(text_.find(str_cat('"', step.key, '"')),
                                      text_.find(str_cat('\'', step.key, '\'')));
      if (at != std::string::npos) {
        line = 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + at, '\n'));
      }
      break;
    }
    const int index = known->is_repeated() ? std::max(step.index, 0) : -1;
    // A list in brackets has one place for all its elements, under its first index.
    int found = tree->GetLocation(known, index).line;
    for (int i = index - 1; found < 0 && i >= 0; --i) found = tree->GetLocation(known, i).line;
    if (found < 0) break;
    line = found + 1;
    message = known->message_type();
    tree = message == nullptr ? nullptr : tree->GetTreeForNested(known, index);
  }
  return line;
}

}  // namespace tutti::server
