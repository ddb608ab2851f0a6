// Protobuf messages as JSON under their own field names, as Triton writes them: every plain field
// is there, 64-bit integers are numbers, enumerations are names; messages that are not set are left
// out.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

namespace tutti::server {

using Json = nlohmann::ordered_json;

Json proto_to_json(const google::protobuf::Message& message);

// The text; bytes that are no UTF-8 become U+FFFD.
std::string json_text(const Json& json);

}  // namespace tutti::server
