#include "count_allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local std::int64_t allocations = 0;
}  // namespace

namespace tutti::toy {
std::int64_t allocations_of_this_thread() { return allocations; }
}  // namespace tutti::toy

// For the whole program. All forms that pair with the plain delete, so that sanitizers, which have
// their own, see no mixture.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
