// Copies a box of elements from one strided place to another: what transposes, slices, joins and
// broadcasts come down to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dims.h"
#include "base/thread_pool.h"
#include "runtime/strided_box.h"

namespace tutti::cpu {

class StridedCopy {
 public:
  StridedCopy() = default;  // copies nothing

  explicit StridedCopy(const StridedBox& box);  // elements of 1, 2, 4 or 8 bytes

  // Allocates nothing. Uses the pool's threads for what is large enough.
  void run(const void* source, void* target, ThreadPool* pool) const;

 private:
  enum class Mode {
    kNothing,
    kRuns,      // the last dimension is dense on both sides
    kFill,      // ... dense in the target, one element in the source
    kTiles,     // ... dense in the target, while another one is dense in the source
    kElements,  // anything else
  };

  void widen_elements();
  void choose_mode();
  void run_units(const std::byte* source, std::byte* target, std::int64_t begin,
                 std::int64_t end) const;
  void copy_unit(const std::byte* source, std::byte* target, std::int64_t piece) const;

  Mode mode_ = Mode::kNothing;
  std::size_t size_ = 1;
  std::int64_t source_offset_ = 0;  // bytes
  std::int64_t target_offset_ = 0;
  Dims dims_;            // outer dimensions, over which units are counted
  Dims source_strides_;  // bytes
  Dims target_strides_;
  // One unit is a piece of `inner_` (kTiles: of `row_`) elements.
  std::int64_t inner_ = 1;
  std::int64_t inner_source_ = 0;  // bytes
  std::int64_t inner_target_ = 0;
  std::int64_t row_ = 1;         // kTiles: the dimension that is dense in the source
  std::int64_t row_target_ = 0;  // its stride in the target, bytes
  std::int64_t piece_ = 1;       // elements of a unit
  std::int64_t pieces_ = 1;
  std::int64_t units_ = 0;
  std::int64_t grain_ = 1;
};

}  // namespace tutti::cpu
