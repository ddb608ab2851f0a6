// The header of a .npy file: a Python dictionary literal with three keys.
#pragma once

#include <string>
#include <string_view>

#include "base/dims.h"
#include "base/status.h"

namespace tutti {

struct NpyHeader {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  Dims dims;
};

// Errors say what was expected at which character. All three keys must be there, none twice.
Result<NpyHeader> parse_npy_header(std::string_view text);

std::string npy_header_text(const NpyHeader& header);

}  // namespace tutti
