// Two products of one operand, combined element by element, as one kernel for Hopper's matrix
// units: what the products make goes from the accumulators into the result and nowhere else.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/rank_context.h"
#include "base/dtype.h"

namespace tutti::cuda {

// y[m, n] = combine(a[m, k] g[k, n], a u[k, n]), all row-major.
struct GatedShape {
  DType dtype = DType::kBFloat16;  // or f16; sums in f32
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool is_transposed = false;  // g and u are [n, k]
};

class GatedProduct {
 public:
  // `combine` is the body of a function of f32 x0 and x1 that returns f32. UNIMPLEMENTED on cards
  // other than compute capability 9.0, for other types, and where n is no multiple of 128 or k none
  // of 8.
  static Result<std::unique_ptr<GatedProduct>> create(RankContext& context, const GatedShape& shape,
                                                      const std::string& combine);
  virtual ~GatedProduct() = default;
  // On the rank's stream. Allocates nothing.
  virtual Status run(const void* a, const void* g, const void* u, void* y) = 0;
};

}  // namespace tutti::cuda
