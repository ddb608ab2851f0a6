// A flag whose value is one of a few words.
#pragma once

#include <map>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

namespace tutti::cli {

// Case does not matter. The error names the words: CLI11's own names the numbers behind them too.
template <class Value>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, Value& value,
                        const std::map<std::string, Value>& choices, const std::string& help) {
  std::string words;
  for (const auto& [word, meaning] : choices) {
    words += (words.empty() ? "" : ", ") + word;
    if (meaning == value) words += " (the default)";
  }
  const auto set = [flag, choices, words, &value](const std::string& given) {
    const auto found = choices.find(CLI::detail::to_lower(given));
    if (found == choices.end()) {
      throw CLI::ValidationError(flag, "'" + given + "', expected one of " + words);
    }
    value = found->second;
  };
  return command.add_option_function<std::string>(flag, set, help + ": " + words);
}

}  // namespace tutti::cli
