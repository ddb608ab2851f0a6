// This test program counts what goes through operator new.
#pragma once

#include <cstdint>

namespace tutti::toy {

std::int64_t allocations_of_this_thread();

}  // namespace tutti::toy
