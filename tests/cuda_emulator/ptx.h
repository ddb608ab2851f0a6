// Rewrites what a host compiler does not take in a kernel's text.
#pragma once

#include <string>

namespace tutti::cuda_emulator {

// asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)) becomes emulated::ptx_cvt_f32_f16(y, x): an
// instruction that ptx_code.h lacks fails to compile with its name. `extern __shared__ T x[]`
// becomes a pointer to the launch's shared memory. Throws std::runtime_error for an asm statement
// of another form: one instruction each.
std::string rewrite_for_host(const std::string& text);

}  // namespace tutti::cuda_emulator
