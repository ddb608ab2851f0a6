// How a kernel over rows writes what goes to several places.
#pragma once

#include <optional>
#include <span>

#include "backends/cuda/row_code.h"
#include "backends/cuda/row_route.h"

namespace tutti::cuda {

// Leaves rows out that have no place by any of `routes`, where the lead allows it. `address`: of
// the kernel, where the others are listed.
Status choose_rows(std::span<const std::optional<RowRoute>> routes, std::size_t address,
                   RowLayout* layout);

// Writes into the kernel's code; layout and code outlive it.
class RowRoutes {
 public:
  // `first_address` of the routed outputs' targets, which lie behind each other; then comes that of
  // the table, which begins with the rows that choose_rows() chose.
  RowRoutes(const RowLayout& layout, std::span<const std::optional<RowRoute>> routes,
            std::size_t first_address, RowCode* code);

  bool has(std::size_t output) const { return output < routes_.size() && routes_[output]; }
  // Prepares output j. UNIMPLEMENTED where rows do not fit the route.
  Status add(std::size_t j, DType dtype);
  // Stores `value`, a pack of `pack` type, of pack `k` where `condition` holds.
  std::string store(std::size_t j, const std::string& value, const std::string& pack,
                    const std::string& condition) const;

  // What the kernel reads at its last address.
  const std::vector<std::int64_t>& table() const { return table_; }

 private:
  struct Cut;
  Dims sizes_of(const RowRoute& route) const;
  std::int64_t index_of(std::int64_t at) const;
  Result<Cut> cut_of(const RowRoute& route) const;
  Status fill_table(const RowRoute& route, const Cut& cut, std::int64_t most);
  std::string coordinates(std::size_t j, const Cut& cut);

  const RowLayout& layout_;
  const std::span<const std::optional<RowRoute>> routes_;
  const std::size_t first_address_;
  std::size_t table_address_ = 0;
  RowCode* const code_;
  std::vector<std::int64_t> table_;
  struct Stored {
    std::int64_t packs = 0;  // side by side in one place; 0: a row's
    std::int64_t most = 1;   // places of an element
    std::string entry;       // of place `e`
    std::string address;     // likewise
    std::string type;
  };
  std::vector<Stored> stored_;  // by output
};

}  // namespace tutti::cuda
