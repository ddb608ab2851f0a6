#include "graph/mesh.h"

#include <cctype>
#include <charconv>

namespace tutti {
namespace {

constexpr int kMaxRanks = 1024;

bool is_identifier(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

}  // namespace

Result<Mesh> Mesh::create(std::vector<MeshAxis> axes) {
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!is_identifier(axes[i].name)) {
      return invalid_argument("mesh axis '", axes[i].name, "' is not a name like 'cp'");
    }
    if (axes[i].size < 1) {
      return invalid_argument("mesh axis '", axes[i].name, "' has size ", axes[i].size,
                              ", expected at least 1");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[j].name == axes[i].name) {
        return invalid_argument("mesh axis '", axes[i].name, "' stands twice");
      }
    }
    ranks *= axes[i].size;
    if (ranks > kMaxRanks) return invalid_argument("mesh has more than ", kMaxRanks, " ranks");
  }
  Mesh mesh;
  mesh.axes_ = std::move(axes);
  return mesh;
}

Result<Mesh> Mesh::parse(std::string_view text) {
  std::vector<MeshAxis> axes;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view piece = text.substr(0, comma);
    const std::size_t equals = piece.find('=');
    int size = 0;
    const std::string_view number =
        equals == std::string_view::npos ? std::string_view() : piece.substr(equals + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
    if (number.empty() || error != std::errc() || end != number.data() + number.size()) {
      return invalid_argument("mesh '", piece, "': expected NAME=SIZE, such as cp=4");
    }
    axes.push_back({std::string(piece.substr(0, equals)), size});
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return invalid_argument("mesh ends with a comma: expected NAME=SIZE");
  }
  return create(std::move(axes));
}

int Mesh::num_ranks() const {
  int ranks = 1;
  for (const MeshAxis& axis : axes_) ranks *= axis.size;
  return ranks;
}

int Mesh::find(std::string_view name) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int Mesh::coordinate(int rank, int axis) const {
  int stride = 1;
  for (std::size_t i = axes_.size(); i-- > static_cast<std::size_t>(axis) + 1;) {
    stride *= axes_[i].size;
  }
  return rank / stride % size(axis);
}

std::vector<int> Mesh::peers(int rank, int axis) const {
  int stride = 1;
  for (std::size_t i = axes_.size(); i-- > static_cast<std::size_t>(axis) + 1;) {
    stride *= axes_[i].size;
  }
  const int first = rank - coordinate(rank, axis) * stride;
  std::vector<int> ranks;
  for (int i = 0; i < size(axis); ++i) ranks.push_back(first + i * stride);
  return ranks;
}

Dim Mesh::rank_symbol(int axis) const {
  return Dim::symbol("rank." + axes_[static_cast<std::size_t>(axis)].name);
}

void Mesh::bind(int rank, SymbolMap* symbols) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    (*symbols)["rank." + axes_[i].name] = coordinate(rank, static_cast<int>(i));
  }
}

std::string Mesh::to_string() const {
  std::string text;
  for (const MeshAxis& axis : axes_) {
    if (!text.empty()) text += ",";
    text += str_cat(axis.name, "=", axis.size);
  }
  return text;
}

}  // namespace tutti
