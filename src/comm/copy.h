// Copies between boxes of bytes in host memory.
#pragma once

#include "comm/communicator.h"

namespace tutti {

// Copies the bytes of `from` (inside `source`) to `to` (inside `target`). Both regions have the
// same sizes and run; the caller has checked. Allocates nothing.
void copy_region(const Region& from, const void* source, const Region& to, void* target);

}  // namespace tutti
