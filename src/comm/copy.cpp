#include "comm/copy.h"

#include <cstring>

namespace tutti {
namespace {

struct Box {
  const std::int64_t* sizes;
  const std::int64_t* source_strides;
  const std::int64_t* target_strides;
  std::size_t rank;
  std::size_t run;
};

// A run of known length compiles to moves instead of a call.
template <std::size_t kRun>
void copy_runs(const std::byte* source, std::byte* target, std::int64_t count,
               std::int64_t source_stride, std::int64_t target_stride, std::size_t run) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(target, source, kRun != 0 ? kRun : run);
    source += source_stride;
    target += target_stride;
  }
}

void copy_innermost(const Box& box, const std::byte* source, std::byte* target) {
  const std::size_t last = box.rank - 1;
  const auto copy = box.run == 2   ? copy_runs<2>
                    : box.run == 4 ? copy_runs<4>
                    : box.run == 8 ? copy_runs<8>
                                   : copy_runs<0>;
  copy(source, target, box.sizes[last], box.source_strides[last], box.target_strides[last],
       box.run);
}

void copy_box(const Box& box, std::size_t dim, const std::byte* source, std::byte* target) {
  if (dim + 1 == box.rank) {
    copy_innermost(box, source, target);
    return;
  }
  for (std::int64_t i = 0; i < box.sizes[dim]; ++i) {
    copy_box(box, dim + 1, source + i * box.source_strides[dim],
             target + i * box.target_strides[dim]);
  }
}

}  // namespace

void copy_region(const Region& from, const void* source, const Region& to, void* target) {
  if (from.byte_size() == 0) return;
  const std::byte* first = static_cast<const std::byte*>(source) + from.offset;
  std::byte* out = static_cast<std::byte*>(target) + to.offset;
  const auto run = static_cast<std::size_t>(from.run);
  if (from.sizes.empty()) {
    std::memcpy(out, first, run);
    return;
  }
  copy_box({from.sizes.data(), from.strides.data(), to.strides.data(), from.sizes.size(), run}, 0,
           first, out);
}

}  // namespace tutti
