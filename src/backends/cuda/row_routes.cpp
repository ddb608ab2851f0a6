#include "backends/cuda/row_routes.h"

#include <algorithm>

#include "backends/cuda/generated_kernel.h"

namespace tutti::cuda {

namespace {

constexpr std::int64_t kLeastRun = 32;  // bytes side by side: what memory and links move at least

// Coordinates along the route's dimension that have a place.
std::vector<std::int64_t> coordinates_of(const RowRoute& route) {
  std::vector<std::int64_t> found;
  for (const RowRoute::Place& place : route.places) found.push_back(place.at);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Whether rows are counted by the route's dimensions, its cut one among them.
bool counts_rows(const RowRoute& route, const RowLayout& layout) {
  return route.dim >= 0 && route.dim < std::ssize(layout.lead) &&
         route.dims.size() >= layout.lead.size() &&
         std::equal(layout.lead.begin(), layout.lead.end(), route.dims.begin());
}

}  // namespace

Status choose_rows(std::span<const std::optional<RowRoute>> routes, std::size_t address,
                   RowLayout* layout) {
  if (routes.empty() || !routes[0]) return {};
  const RowRoute& first = *routes[0];
  std::vector<std::int64_t> chosen = coordinates_of(first);
  if (first.dim < 0 || std::ssize(chosen) == first.dims[static_cast<std::size_t>(first.dim)]) {
    return {};
  }
  const bool can_choose = std::all_of(routes.begin(), routes.end(), [&](const auto& route) {
    return route && route->dim == first.dim && counts_rows(*route, *layout) &&
           coordinates_of(*route) == chosen;
  });
  if (!can_choose) {
    return first.skips_rows ? unimplemented("a route cuts through rows") : Status();
  }
  layout->chosen_dim = first.dim;
  layout->rows =
      layout->rows / layout->lead[static_cast<std::size_t>(first.dim)] * std::ssize(chosen);
  layout->chosen = std::move(chosen);
  layout->chosen_address = address;
  if (layout->rows == 0) return unimplemented("no row has a place");
  return {};
}

// How the dimensions of a route lie in rows.
struct RowRoutes::Cut {
  std::size_t lead = 0;           // dimensions that count rows
  bool is_in_row = false;         // the cut one is not among them
  std::int64_t size = 1;          // of the cut one
  std::vector<std::size_t> rest;  // of the others that count rows, those that are larger than 1
};

RowRoutes::RowRoutes(const RowLayout& layout, std::span<const std::optional<RowRoute>> routes,
                     std::size_t first_address, RowCode* code)
    : layout_(layout),
      routes_(routes),
      first_address_(first_address),
      code_(code),
      table_(layout.chosen),
      stored_(routes.size()) {
  table_address_ = first_address_;
  for (const auto& route : routes_) table_address_ += route ? route->targets : 0;
}

// With as many rows as are worked on.
Dims RowRoutes::sizes_of(const RowRoute& route) const {
  Dims sizes = route.dims;
  if (layout_.chosen_dim >= 0) {
    sizes[static_cast<std::size_t>(route.dim)] = std::ssize(layout_.chosen);
  }
  return sizes;
}

Result<RowRoutes::Cut> RowRoutes::cut_of(const RowRoute& route) const {
  Cut cut;
  const Dims sizes = sizes_of(route);
  std::int64_t rows = 1;
  while (rows < layout_.rows && cut.lead < sizes.size()) rows *= sizes[cut.lead++];
  if (rows != layout_.rows) return unimplemented("a route cuts through ", layout_.rows, " rows");
  const Dims dense = contiguous_strides(route.dims);
  const auto dim = static_cast<std::size_t>(route.dim);
  cut.is_in_row = route.dim >= 0 && dim >= cut.lead;
  if (route.dim >= 0) cut.size = sizes[dim];
  for (std::size_t d = 0; d < cut.lead; ++d) {
    if (d != dim && route.dims[d] > 1) cut.rest.push_back(d);
  }
  // What lies side by side in a row does so there, too.
  for (std::size_t d = cut.lead; d < route.dims.size(); ++d) {
    if (route.dims[d] == 1 || d == dim) continue;
    if (cut.is_in_row && d < dim) return unimplemented("a route cuts through rows in the middle");
    for (const RowRoute::Place& place : route.places) {
      if (place.strides[d] != dense[d]) return unimplemented("a route scatters what is in a row");
    }
  }
  if (cut.is_in_row && dense[dim] % layout_.pack != 0) {
    return unimplemented("a route cuts through ", layout_.pack, " elements");
  }
  return cut;
}

std::int64_t RowRoutes::index_of(std::int64_t at) const {
  if (layout_.chosen_dim < 0) return at;
  return std::lower_bound(layout_.chosen.begin(), layout_.chosen.end(), at) -
         layout_.chosen.begin();
}

// For each coordinate along the cut dimension `most` entries: target (-1: none), offset, strides.
Status RowRoutes::fill_table(const RowRoute& route, const Cut& cut, std::int64_t most) {
  const std::size_t first = table_.size();
  const std::size_t words = 2 + cut.rest.size();
  const auto all = static_cast<std::size_t>(cut.size * most) * words;
  table_.resize(first + all, 0);
  for (std::size_t i = first; i < table_.size(); i += words) table_[i] = -1;
  for (const RowRoute::Place& place : route.places) {
    auto entry = table_.begin() + static_cast<std::ptrdiff_t>(first) +
                 index_of(place.at) * most * static_cast<std::int64_t>(words);
    while (*entry >= 0) entry += static_cast<std::ptrdiff_t>(words);
    *entry++ = static_cast<std::int64_t>(place.target);
    *entry++ = place.offset;
    bool fits = place.offset % layout_.pack == 0;
    for (const std::size_t d : cut.rest) {
      fits = fits && place.strides[d] % layout_.pack == 0;
      *entry++ = place.strides[d];
    }
    if (!fits) return unimplemented("a route does not keep ", layout_.pack, " elements together");
  }
  return {};
}

// j<output>c<d>: where the row stands in the route's dimensions.
std::string RowRoutes::coordinates(std::size_t j, const Cut& cut) {
  const Dims dims = sizes_of(*routes_[j]);
  const std::string name = str_cat("j", j);
  std::string out = str_cat("    u32 ", name, "rest = row;\n");
  for (std::size_t d = cut.lead; d-- > 0;) {
    if (dims[d] == 1) {
      out += str_cat("    const i64 ", name, "c", d, " = 0;\n");
      continue;
    }
    const std::string divisor = code_->number(divisor_word(dims[d], false));
    out += str_cat("    const u32 ", name, "q", d, " = divide(", name, "rest, ", divisor,
                   ");\n    const i64 ", name, "c", d, " = ", name, "rest - ", name, "q", d,
                   " * (u32)", code_->number(dims[d]), ";\n    ", name, "rest = ", name, "q", d,
                   ";\n");
  }
  return out;
}

Status RowRoutes::add(std::size_t j, DType dtype) {
  const RowRoute& route = *routes_[j];
  const std::string type = type_name(dtype);
  TUTTI_ASSIGN_OR_RETURN(const Cut cut, cut_of(route));
  const std::int64_t run = cut.is_in_row
                               ? contiguous_strides(route.dims)[static_cast<std::size_t>(route.dim)]
                               : layout_.out;
  if (run * static_cast<std::int64_t>(dtype_size(dtype)) < kLeastRun) {
    return unimplemented("a route of ", run, " elements at a time");
  }
  std::vector<std::int64_t> count(static_cast<std::size_t>(cut.size), 0);
  for (const RowRoute::Place& place : route.places) {
    ++count[static_cast<std::size_t>(index_of(place.at))];
  }
  Stored& stored = stored_[j];
  stored.type = type;
  stored.most = std::max<std::int64_t>(*std::max_element(count.begin(), count.end()), 1);
  const std::size_t first = table_.size();
  TUTTI_RETURN_IF_ERROR(fill_table(route, cut, stored.most));
  std::size_t address = first_address_;
  for (std::size_t i = 0; i < j; ++i) address += routes_[i] ? routes_[i]->targets : 0;

  const auto words = static_cast<std::int64_t>(2 + cut.rest.size());
  const std::string name = str_cat("j", j);
  std::string at = "0";
  if (cut.is_in_row) {
    const auto dim = static_cast<std::size_t>(route.dim);
    stored.packs = contiguous_strides(route.dims)[dim] / layout_.pack;
    at = str_cat("k / ", stored.packs);
  } else if (route.dim >= 0) {
    at = str_cat(name, "c", route.dim);
  }
  stored.entry = str_cat("(const i64*)p.p[", table_address_, "] + ", first, " + ((", at, ") * ",
                         stored.most, " + e) * ", words);
  stored.address = str_cat("(", type, "*)p.p[", address, " + w[0]] + w[1]");
  for (std::size_t i = 0; i < cut.rest.size(); ++i) {
    stored.address += str_cat(" + ", name, "c", cut.rest[i], " * w[", i + 2, "]");
  }
  code_->pointers += coordinates(j, cut);
  if (cut.is_in_row) return {};
  // One place a row, whatever part of it is stored.
  code_->pointers += str_cat("    ", type, "* ", name, "to[", stored.most,
                             "];\n#pragma unroll\n    for (int e = 0; e < ", stored.most,
                             "; ++e) {\n      const i64* w = ", stored.entry, ";\n      ", name,
                             "to[e] = w[0] < 0 ? 0 : ", stored.address, ";\n    }\n");
  return {};
}

std::string RowRoutes::store(std::size_t j, const std::string& value, const std::string& pack,
                             const std::string& condition) const {
  const Stored& stored = stored_[j];
  std::string out =
      str_cat("#pragma unroll\n      for (int e = 0; e < ", stored.most, "; ++e) {\n");
  if (stored.packs == 0) {
    return str_cat(out, "        if (", condition, " && j", j, "to[e] != 0) ((", pack, "*)j", j,
                   "to[e])[k] = ", value, ";\n      }\n");
  }
  return str_cat(out, "        const i64* w = ", stored.entry, ";\n        if (", condition,
                 " && w[0] >= 0) ((", pack, "*)(", stored.address, "))[k % ", stored.packs,
                 "] = ", value, ";\n      }\n");
}

}  // namespace tutti::cuda
