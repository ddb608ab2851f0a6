// One change of an input, small enough that much of what made it valid stays.
#pragma once

#include <random>
#include <string>

#include "fuzz/surface.h"

namespace tutti::fuzz {

std::string changed(const Surface& surface, const std::string& input, std::mt19937& random);

}  // namespace tutti::fuzz
