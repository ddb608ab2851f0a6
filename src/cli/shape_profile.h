// The sizes that a plan is made for, as given on the command line: `--profile` by size name, or by
// input as TensorRT's trtexec takes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace CLI {
class App;
}

namespace tutti::cli {

struct ProfileOptions {
  std::vector<std::string> ranges;      // NAME=MIN:OPT:MAX, several with commas between
  std::vector<std::string> min_shapes;  // INPUT:2x16x8x8, several with commas between
  std::vector<std::string> opt_shapes;
  std::vector<std::string> max_shapes;
};

void add_profile_options(CLI::App& command, ProfileOptions* options);

// Ranges by symbol. What shapes leave out is completed: opt is max (or else min), min and max are
// opt. Errors name the option and the text: a name that no input has, sizes that do not fit an
// input, two ranges for one symbol, min <= opt <= max broken.
Result<std::map<std::string, DimRange>> shape_profile(const ProfileOptions& options,
                                                      const std::vector<PlanTensor>& inputs);

}  // namespace tutti::cli
