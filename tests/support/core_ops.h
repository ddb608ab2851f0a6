#pragma once

#include "ops/lowering.h"

namespace tutti::test {

// All core operators.
inline const OpRegistry& core_ops() {
  static const OpRegistry registry = [] {
    OpRegistry all;
    LoweringRegistry lowerings;
    register_all_ops(&all, &lowerings);
    return all;
  }();
  return registry;
}

}  // namespace tutti::test
