// Named sets of rates for pricing layouts.
#pragma once

#include <string_view>

#include "compiler/compile.h"

namespace tutti {

struct DeviceProfile {
  std::string_view name;
  CostRates rates;
};

// "h200" or "cpu"; the error lists them. device_profile.cpp says where the numbers are from.
Result<DeviceProfile> device_profile(std::string_view name);

}  // namespace tutti
