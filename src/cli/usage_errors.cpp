#include "cli/usage_errors.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "server/names.h"

namespace tutti::cli {
namespace {

// Levenshtein's, "Binary codes capable of correcting deletions, insertions, and reversals" (1966).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// Of `names` the one that `word` begins, or that is a third of its letters away at most.
std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  std::string best;
  std::size_t distance = word.size() / 3 + 1;
  for (const std::string& name : names) {
    if (word.size() > 3 && name.starts_with(word)) return name;
    const std::size_t here = edit_distance(word, name);
    if (here >= distance) continue;
    distance = here;
    best = name;
  }
  return best;
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// The innermost command on the line, and its name with those around it.
const CLI::App& asked(const CLI::App& app, int argc, char** argv, std::string* name) {
  const CLI::App* command = &app;
  *name = "tutti";
  for (int i = 1; i < argc; ++i) {
    const auto inner =
        command->get_subcommands([&](const CLI::App* each) { return each->get_name() == argv[i]; });
    if (inner.empty()) break;
    command = inner.front();
    *name += " " + command->get_name();
  }
  return *command;
}

int finish(const std::string& name) {
  std::fprintf(stderr, "Run `%s --help` for more information.\n", name.c_str());
  return 2;
}

}  // namespace

int report_unknown(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string name;
  const CLI::App& command = asked(app, argc, argv, &name);
  const std::string text = error.what();
  std::string word = text.substr(text.find(": ") + 2);
  word = word.substr(0, word.find_first_of("= "));
  const std::string meant = word.starts_with("--") ? nearest(word, flags_of(command)) : "";
  std::fprintf(stderr, "%s: '%s' is not known%s\n", name.c_str(), server::printable(word).c_str(),
               meant.empty() ? "" : ("; did you mean '" + meant + "'?").c_str());
  return finish(name);
}

int report_required(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string name;
  const CLI::App& command = asked(app, argc, argv, &name);
  // Flags that are not known come to light before what is missing.
  const auto flags = flags_of(command);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string word(argument.substr(0, argument.find('=')));
    if (!word.starts_with("--") || word.size() == 2) continue;
    if (std::find(flags.begin(), flags.end(), word) != flags.end()) continue;
    return report_unknown(app, CLI::ExtrasError({word}), argc, argv);
  }
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return finish(name);
  }
  std::string known;
  for (const CLI::App* each : commands) known += (known.empty() ? "" : ", ") + each->get_name();
  const int depth = static_cast<int>(std::count(name.begin(), name.end(), ' ')) + 1;
  const std::string given = argc > depth ? "'" + server::printable(argv[depth]) + "' is no command"
                                         : std::string("a command is missing");
  std::fprintf(stderr, "%s: %s, expected one of %s\n", name.c_str(), given.c_str(), known.c_str());
  return finish(name);
}

}  // namespace tutti::cli
