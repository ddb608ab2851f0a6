// A sub-command of `tutti`: one file each, listed in main.cpp.
#pragma once

#include <functional>
#include <string_view>

namespace CLI {
class App;
}

namespace tutti::cli {

// Declares its options on `command`; the function it returns runs the sub-command after parsing and
// gives the exit code: 0 done, 1 failed (the reason is on stderr), 2 wrong arguments. What the
// options are bound to must live in that function.
using AddSubcommand = std::function<int()> (*)(CLI::App& command);

struct Subcommand {
  std::string_view name;
  std::string_view summary;
  AddSubcommand add;
};

}  // namespace tutti::cli
