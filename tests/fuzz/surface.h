// A surface: a place where bytes from outside come in, and how a fuzzer feeds it.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::fuzz {

struct Surface {
  std::string_view name;
  // Comes back in a short time with little memory, whatever the input, and keeps nothing.
  void (*run)(std::string_view input);
  // Small inputs, mostly valid ones, to start from.
  std::vector<std::string> (*seeds)();
  // Inputs are serialised messages like this one, and mutations change their fields; null: inputs
  // are bytes.
  const google::protobuf::Message* message = nullptr;
};

// Those that are linked in.
const std::vector<Surface>& surfaces();

// One a surface, at namespace scope.
struct Registration {
  explicit Registration(const Surface& surface);
};

// Ends the process unless an error is one that its reader can use: it says something, in UTF-8, in
// bounded length, and blames the input rather than us.
void check_error(const Status& status);
template <class T>
bool check_result(const Result<T>& result) {
  if (!result.ok()) check_error(result.status());
  return result.ok();
}

// What check_error() has seen since it was last asked, without the numbers and names in it: two
// inputs that differ here went different ways.
std::string last_errors();

// Ends the process with a message; for what a surface promises.
void require(bool holds, std::string_view promise);

}  // namespace tutti::fuzz
