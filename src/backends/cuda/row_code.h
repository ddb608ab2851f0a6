// The text of a kernel over rows while it is written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/row_layout.h"
#include "backends/cuda/row_positions.h"

namespace tutti::cuda {

using LaneNames = std::vector<std::string>;  // names of the lanes' values; empty where not needed

// Packs with the same code, and the code as far as it is written.
struct RowScope {
  std::vector<int> packs;
  bool is_before_norm = false;
  std::string condition;  // on `k`; empty: all packs
  std::string code;
  std::map<std::pair<const Value*, Positions>, LaneNames> values = {};
  std::map<std::string, std::string> loads = {};  // by address
};

// What the parts of a kernel share.
struct RowCode {
  std::string number(std::int64_t value);  // "p.n[3]"
  std::string name(const char* prefix);    // one that is not taken: "x7"

  std::vector<std::int64_t> numbers;
  std::string before_rows;  // once a thread
  std::string pointers;     // once a row
  int count = 0;
};

// k: this thread's pack in round u. Beyond the row it is the last one, and not stored.
std::string pack_index(const RowLayout& layout);

}  // namespace tutti::cuda
