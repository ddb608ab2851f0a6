// How values lie along one mesh axis, given the splits of nodes.
#pragma once

#include "compiler/layout.h"

namespace tutti {

class ValueLayouts {
 public:
  // Keeps references to all three.
  ValueLayouts(const FactorMaps& maps, const Sharding& sharding)
      : maps_(maps), sharding_(sharding) {}

  // As its producer makes it; inputs and constants are whole.
  Layout made(const Value& value) const;
  // Nothing but a split: no partial sum, no rows of windows.
  bool is_in_pieces(const Value& value) const;
  // `user` needs the whole wherever it reads `value`.
  bool is_read_whole(const Node& user, const Value& value) const;
  // The node works on pieces, and its results are no partial sums.
  bool works_on_pieces(const Node& node) const;

 private:
  const FactorMaps& maps_;
  const Sharding& sharding_;
};

}  // namespace tutti
