// Flags of tritonserver that mean nothing of their own here, so that its command lines work.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::cli {

struct TritonFlags {
  // Given, and without effect: the flag and why.
  std::map<std::string, std::string> ignored;
  // Values of --trace-config and --cache-config that flags of older releases stand for.
  std::vector<std::string> traces;
  std::string cache;
};

// What Triton offers and this server does not (SageMaker, Vertex AI, name spaces) is an error of
// the command line when it is switched on, and says what to do instead.
void add_triton_flags(CLI::App& command, TritonFlags* flags);

}  // namespace tutti::cli
