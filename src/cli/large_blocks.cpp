// The program's operator new: large blocks come on huge pages where the system has them.
//
// Tensors that travel in messages are blocks of many megabytes that are made for one request, and
// the C library gives each back to the system: on small pages, half of a large call's processor
// time went to page faults. Freed by free(), as the ordinary operators do.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// The rest of the last page is lost: little of a block of this size.
constexpr std::size_t kLarge = 8 * kHugePage;

void* allocate_large(std::size_t size) noexcept {
  const std::size_t padded = (size + kHugePage - 1) / kHugePage * kHugePage;
  if (padded < size) return nullptr;
  void* block = std::aligned_alloc(kHugePage, padded);
  if (block != nullptr) (void)::madvise(block, padded, MADV_HUGEPAGE);
  return block;
}

void* allocate(std::size_t size) noexcept {
  return size >= kLarge ? allocate_large(size) : std::malloc(std::max<std::size_t>(size, 1));
}

}  // namespace

void* operator new(std::size_t size) {
  for (;;) {
    if (void* block = allocate(size)) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t /*size*/) noexcept { std::free(block); }
