// The operators that this build reads and runs, as text or JSON on stdout.
#pragma once

namespace tutti::cli {

// Returns the exit code.
int inspect_operators(bool as_json);

}  // namespace tutti::cli
