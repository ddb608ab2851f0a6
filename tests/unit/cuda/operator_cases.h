// Small graphs that cover the core operators in all forms that a backend must tell apart.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace tutti::cuda {

struct OperatorCase {
  std::string name;
  std::string text;  // a graph; $T stands for the element type
  std::vector<std::string> types = {"f32"};
  // Values of inputs are drawn from here: floats between, integers with both ends.
  double low = -2;
  double high = 2;
  // For inputs by name, integers with both ends.
  std::map<std::string, std::pair<int, int>> ranges = {};

  friend std::ostream& operator<<(std::ostream& out, const OperatorCase& test) {
    return out << test.name;
  }
};

const std::vector<OperatorCase>& operator_cases();

}  // namespace tutti::cuda
