#include "graph/factor_map.h"

#include <algorithm>

namespace tutti {
namespace {

std::string operand_text(const FactorMap& map, const DimFactors& dims) {
  std::string text = "(";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += " ";
    if (dims[i].empty()) text += "1";
    if (dims[i].size() > 1) text += "(";
    for (std::size_t j = 0; j < dims[i].size(); ++j) {
      if (j > 0) text += " ";
      const Factor& factor = map.factors[static_cast<std::size_t>(dims[i][j])];
      text += factor.name;
      if (factor.role == FactorRole::kReduction) text += "+";
      if (factor.role == FactorRole::kWhole) text += "!";
      if (factor.role == FactorRole::kWindow) text += "~";
    }
    if (dims[i].size() > 1) text += ")";
  }
  return text + ")";
}

}  // namespace

int FactorMap::add(std::string name, Dim size, FactorRole role) {
  factors.push_back({std::move(name), std::move(size), role});
  return static_cast<int>(factors.size()) - 1;
}

const FactorSum* FactorMap::sum_of(int factor) const {
  for (const FactorSum& sum : sums) {
    if (sum.whole == factor) return &sum;
  }
  return nullptr;
}

const FactorSum* FactorMap::sum_with(int part) const {
  for (const FactorSum& sum : sums) {
    if (std::find(sum.parts.begin(), sum.parts.end(), part) != sum.parts.end()) return &sum;
  }
  return nullptr;
}

const FactorWindow* FactorMap::window_of(const std::vector<int>& dimension) const {
  if (dimension.size() != 1) return nullptr;
  for (const FactorWindow& window : windows) {
    if (window.input == dimension[0]) return &window;
  }
  return nullptr;
}

std::string FactorMap::to_string() const {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0) text += ",";
    text += operand_text(*this, inputs[i]);
  }
  text += "->";
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i > 0) text += ",";
    text += operand_text(*this, outputs[i]);
  }
  for (const FactorSum& sum : sums) {
    text += str_cat(" with ", factors[static_cast<std::size_t>(sum.whole)].name, " =");
    for (const int part : sum.parts) {
      text +=
          str_cat(part == sum.parts[0] ? " " : " | ", factors[static_cast<std::size_t>(part)].name);
    }
  }
  return text;
}

}  // namespace tutti
