#include "backends/cuda/strided_copy.h"

#include <algorithm>

#include "runtime/strides.h"

namespace tutti::cuda {
namespace {

// Elements that lie side by side on both sides travel in words of up to 16 bytes.
void widen_elements(StridedBox* box) {
  if (box->source_strides.back() != 1 || box->target_strides.back() != 1) return;
  for (std::size_t word = 16; word > box->element_size; word /= 2) {
    const auto factor = static_cast<std::int64_t>(word / box->element_size);
    bool fits = box->dims.back() % factor == 0 && box->source_offset % factor == 0 &&
                box->target_offset % factor == 0;
    for (std::size_t d = 0; d + 1 < box->dims.size(); ++d) {
      fits = fits && box->source_strides[d] % factor == 0 && box->target_strides[d] % factor == 0;
    }
    if (!fits) continue;
    box->element_size = word;
    box->dims.back() /= factor;
    box->source_offset /= factor;
    box->target_offset /= factor;
    for (std::size_t d = 0; d + 1 < box->dims.size(); ++d) {
      box->source_strides[d] /= factor;
      box->target_strides[d] /= factor;
    }
    return;
  }
}

// Largest distance from the first element that a side reaches, in elements.
std::int64_t reach(const Dims& dims, const Dims& strides) {
  std::int64_t total = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) total += std::abs(strides[d]) * (dims[d] - 1);
  return total;
}

}  // namespace

Result<StridedCopy> StridedCopy::create(RankContext& context, const StridedBox& given) {
  StridedCopy copy;
  StridedBox box = given;
  const std::int64_t count = element_count(box.dims);
  if (count == 0) return copy;
  std::vector<Dims> strides = {box.target_strides, box.source_strides};
  box.dims = collapse(box.dims, &strides);
  box.target_strides = std::move(strides[0]);
  box.source_strides = std::move(strides[1]);
  widen_elements(&box);
  const std::int64_t total = element_count(box.dims);
  const bool is_wide = needs_wide_index(
      {total, reach(box.dims, box.source_strides), reach(box.dims, box.target_strides)});
  KernelSource source;
  source.entry = "copy";
  source.files = {"copy.cuh"};
  define_index(is_wide, &source);
  source.defines.emplace_back("offset_t", is_wide ? "i64" : "i32");
  source.defines.emplace_back("RANK", std::to_string(box.dims.size()));
  source.defines.emplace_back("WORD", std::to_string(box.element_size));
  std::vector<std::int64_t> numbers = {total, box.source_offset, box.target_offset};
  for (std::size_t d = 0; d < box.dims.size(); ++d) {
    numbers.insert(numbers.end(), {box.dims[d], divisor_word(box.dims[d], is_wide),
                                   box.source_strides[d], box.target_strides[d]});
  }
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(source), 2, std::move(numbers),
                                                 grid_for(context, total)));
  copy.kernel_.push_back(std::move(kernel));
  return copy;
}

Status StridedCopy::run(const void* source, void* target) {
  return kernel_.empty() ? Status() : kernel_.front().run({source, target});
}

}  // namespace tutti::cuda
