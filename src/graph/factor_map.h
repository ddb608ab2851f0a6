// Layout rules as factor maps, after the sharding rules of OpenXLA's Shardy
// (https://openxla.org/shardy/sharding_representation).
//
// A rule names an operator's factors and says of which factors each dimension of each operand is
// made, from major to minor. MatMul: (b m k),(b k n)->(b m n). A reshape of [t, 512] to [t, 8, 64]:
// (t (h d))->(t h d). Attention: (b (k g) s d),(b k t d),(b k t e)->(b (k g) s e).
#pragma once

#include <string>
#include <vector>

#include "graph/dim.h"
#include "graph/window_map.h"

namespace tutti {

enum class FactorRole {
  kParallel,   // may be split: every piece of the output needs that piece of the inputs alone
  kReduction,  // may be split: the outputs are then partial sums
  kWindow,     // may be split: a piece of the output needs the rows that its windows reach into
  kWhole,      // must be whole on every rank that computes the node
};

struct Factor {
  std::string name = {};
  Dim size = 0;
  FactorRole role = FactorRole::kParallel;
};

// For each dimension, the indexes of its factors, major to minor. An empty list: size 1, or
// broadcast along a factor of the node.
using DimFactors = std::vector<std::vector<int>>;

// Factor `whole` is the concatenation of `parts`, in this order. It can be split by splitting each
// part by itself, and in no other way. A part may stand in no operand: a slice leaves it out.
struct FactorSum {
  int whole = 0;
  std::vector<int> parts;
};

// Rows of the factor `output`, a kWindow one, read windows of the operand dimension that is made of
// the factor `input` alone, whose role is kWhole: who knows no windows needs it whole.
struct FactorWindow {
  int input = 0;
  int output = 0;
  WindowMap map;
};

struct FactorMap {
  std::vector<Factor> factors;
  std::vector<FactorWindow> windows;
  std::vector<DimFactors> inputs;   // one for each input of the node (empty for an absent one)
  std::vector<DimFactors> outputs;  // one for each output

  std::vector<FactorSum> sums;

  // The sum that a factor is the whole of, or a part of; null: none.
  const FactorSum* sum_of(int factor) const;
  const FactorSum* sum_with(int part) const;

  int add(std::string name, Dim size, FactorRole role = FactorRole::kParallel);
  // The window that an operand dimension with these factors is read through, or null.
  const FactorWindow* window_of(const std::vector<int>& dimension) const;
  // (b m k),(b k n)->(b m n) with roles: k+ sum, d! whole, y~ window. Concatenations behind it:
  // with d = a | b.
  std::string to_string() const;
};

}  // namespace tutti
