// What people read who mistyped a command line.
#pragma once

#include <CLI/CLI.hpp>

namespace tutti::cli {

// An argument that nothing takes: with the flag it may have meant. Both return the exit code.
int report_unknown(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv);
// What has to be given and was not: a word that is no command is named first.
int report_required(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv);

}  // namespace tutti::cli
