// What a plan file holds, for people and tools.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::cli {

struct InspectPlanOptions {
  std::string path;
  std::vector<std::string> sizes;  // NAME=SIZE; symbols without one count as 32
  bool as_json = false;
  bool as_dot = false;   // the main graph in Graphviz's language
  bool as_text = false;  // both graphs in the text form
};

Status inspect_plan(const InspectPlanOptions& options);

}  // namespace tutti::cli
