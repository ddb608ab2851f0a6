#include "server/json/proto.h"

#include <google/protobuf/descriptor.h>

#include <string>

namespace tutti::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// One element of a repeated field, or the field itself where `index` is negative.
Json value_of(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& access = *message.GetReflection();
  const bool is_element = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return is_element ? access.GetRepeatedInt32(message, &field, index)
                        : access.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return is_element ? access.GetRepeatedInt64(message, &field, index)
                        : access.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return is_element ? access.GetRepeatedUInt32(message, &field, index)
                        : access.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return is_element ? access.GetRepeatedUInt64(message, &field, index)
                        : access.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return is_element ? access.GetRepeatedFloat(message, &field, index)
                        : access.GetFloat(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return is_element ? access.GetRepeatedDouble(message, &field, index)
                        : access.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return is_element ? access.GetRepeatedBool(message, &field, index)
                        : access.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (is_element ? access.GetRepeatedEnum(message, &field, index)
                         : access.GetEnum(message, &field))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return is_element ? access.GetRepeatedString(message, &field, index)
                        : access.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return proto_to_json(is_element ? access.GetRepeatedMessage(message, &field, index)
                                      : access.GetMessage(message, &field));
  }
  return nullptr;
}

Json list_of(const Message& message, const FieldDescriptor& field) {
  const int size = message.GetReflection()->FieldSize(message, &field);
  Json list = field.is_map() ? Json::object() : Json::array();
  for (int i = 0; i < size; ++i) {
    if (!field.is_map()) {
      list.push_back(value_of(message, field, i));
      continue;
    }
    const Message& entry = message.GetReflection()->GetRepeatedMessage(message, &field, i);
    const Json key = value_of(entry, *field.message_type()->map_key(), -1);
    list[key.is_string() ? key.get<std::string>() : key.dump()] =
        value_of(entry, *field.message_type()->map_value(), -1);
  }
  return list;
}

}  // namespace

Json proto_to_json(const Message& message) {
  Json json = Json::object();
  const auto& fields = *message.GetDescriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    const FieldDescriptor& field = *fields.field(i);
    if (field.is_repeated()) {
      json[field.name()] = list_of(message, field);
    } else if (!field.has_presence() || message.GetReflection()->HasField(message, &field)) {
      json[field.name()] = value_of(message, field, -1);
    }
  }
  return json;
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tutti::server
