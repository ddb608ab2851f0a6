// Mutations of protobuf messages that keep them messages: bytes flipped at random rarely do.
#pragma once

#include <google/protobuf/message.h>

#include <random>

namespace tutti::fuzz {

// One change somewhere inside: a field set to a value of its own kind (small, huge, negative, what
// stands elsewhere in the message), cleared, repeated, moved, or replaced by another of its type.
void mutate_message(google::protobuf::Message* message, std::mt19937& random);

}  // namespace tutti::fuzz
