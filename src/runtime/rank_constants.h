// The weights of one rank: whole constants of the plan and pieces of those that ranks share.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "runtime/backend.h"
#include "runtime/piece_cut.h"

namespace tutti {

// Used by one thread at a time.
class RankConstants {
 public:
  // The tensor that `value`, of which sliced_constant() is not null, is on this rank. A piece that
  // is contiguous in the plan file is a view of it, any other is copied, once for all who hold it.
  // `symbols` bind the rank's coordinates. Errors: no memory.
  Result<std::shared_ptr<const Tensor>> get(const Value& value, const SymbolMap& symbols);

  // Where it lives on `device`, which is the same for all calls. On a device with memory of its
  // own, each constant is placed once, and the host's copy of a piece may go.
  Result<const void*> place(const Value& value, const SymbolMap& symbols, RankDevice& device);

  // Of all that was asked for, each once.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Found {
    std::shared_ptr<const Tensor> tensor;
    std::string key;  // the same for the same bytes of the plan
  };
  Result<Found> find(const Value& value, const SymbolMap& symbols);
  Result<Found> piece_of(const Node& slice, const SymbolMap& symbols);

  std::map<std::string, std::weak_ptr<const Tensor>> pieces_;
  std::map<std::string, const void*> places_;
  std::set<std::string> counted_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti
