#include "onnx/check_text.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <vector>

#include "base/utf8.h"
#include "onnx.pb.h"

namespace tutti {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Attributes keep their texts in fields of bytes.
bool is_text(const FieldDescriptor& field) {
  if (field.type() == FieldDescriptor::TYPE_STRING) return true;
  return field.type() == FieldDescriptor::TYPE_BYTES &&
         field.containing_type() == onnx::AttributeProto::descriptor();
}

std::string escaped(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out.push_back(c);
    } else {
      out += str_cat("\\x", kHex[byte >> 4], kHex[byte & 15U]);
    }
  }
  return text.size() > kLongest ? out + "..." : out;
}

Status check_one(std::string_view text) {
  if (is_utf8(text)) return Status();
  return invalid_argument(" '", escaped(text), "' is no UTF-8");
}

Status check(const Message& message);

// Of a field's value number `index`; -1 for one that is no list. The path grows as errors return.
Status check_value(const Message& message, const FieldDescriptor* field, int index) {
  const auto& reflection = *message.GetReflection();
  Status status;
  std::string scratch;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    status = check(index < 0 ? reflection.GetMessage(message, field)
                             : reflection.GetRepeatedMessage(message, field, index));
  } else {
    status = check_one(
        index < 0 ? reflection.GetStringReference(message, field, &scratch)
                  : reflection.GetRepeatedStringReference(message, field, index, &scratch));
  }
  if (status.ok()) return status;
  const char* dot = status.message().starts_with(' ') ? "" : ".";
  return invalid_argument(field->name(), index < 0 ? "" : str_cat("[", index, "]"), dot,
                          status.message());
}

Status check(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE && !is_text(*field)) continue;
    if (!field->is_repeated()) {
      TUTTI_RETURN_IF_ERROR(check_value(message, field, -1));
      continue;
    }
    const int count = message.GetReflection()->FieldSize(message, field);
    for (int i = 0; i < count; ++i) TUTTI_RETURN_IF_ERROR(check_value(message, field, i));
  }
  return Status();
}

}  // namespace

Status check_text(const onnx::ModelProto& model) { return check(model); }

}  // namespace tutti
