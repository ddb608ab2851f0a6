# Compiler flags, linker, cache and sanitizers, for all of our own code.
#
# No -march: a binary must run on any x86-64; kernels choose their instruction set at run time.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# Kernels ask for -O3 themselves (src/backends/cpu): elsewhere it only lengthens the build.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
# Sanitized tests should finish soon, keep their asserts and still show whole back traces.
set(CMAKE_CXX_FLAGS_SANITIZE "-Og -g1 -fno-omit-frame-pointer")
set(CMAKE_EXE_LINKER_FLAGS_SANITIZE "")
set(CMAKE_SHARED_LINKER_FLAGS_SANITIZE "")
set(CMAKE_MODULE_LINKER_FLAGS_SANITIZE "")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(TUTTI_CCACHE ccache)
if(TUTTI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the tree, so that another clone (CI's) hits what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${TUTTI_CCACHE}")
endif()
add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.")

# Part of binutils, and twice as fast as its default.
find_program(TUTTI_GOLD ld.gold)
if(TUTTI_GOLD)
  add_link_options(-fuse-ld=gold)
endif()

# What our targets link for their flags; generated code does without the warnings.
add_library(tutti_flags INTERFACE)
# GCC 12 reports overlaps in std::string that are none (its bug 105651).
target_compile_options(tutti_flags INTERFACE -Wall -Wextra -Werror
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # Clang, which builds the fuzzers, neither knows nor does all that makes the CPU's kernels fast.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas\;-Wno-pass-failed>)

# Null pointers fault under ASan anyway; UBSan's own check doubles the time to compile.
set(TUTTI_SANITIZER_FLAGS_asan
  -fsanitize=address,undefined -fno-sanitize=null -fno-sanitize-recover=undefined)
set(TUTTI_SANITIZER_FLAGS_tsan -fsanitize=thread)
# Clang's; tests/fuzz links libFuzzer itself. What UBSan checks at every access, ASan sees anyway.
set(TUTTI_SANITIZER_FLAGS_fuzz -fsanitize=fuzzer-no-link,address
  -fsanitize=signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow
  -fsanitize=bounds,bool,enum,return,unreachable,vla-bound
  -fno-sanitize-recover=undefined,float-cast-overflow)
if(TUTTI_SANITIZER)
  # GCC's flow analysis sees the checks that sanitizers insert as ways to uninitialised values.
  target_compile_options(tutti_flags INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(NOT DEFINED TUTTI_SANITIZER_FLAGS_${TUTTI_SANITIZER})
    message(FATAL_ERROR "TUTTI_SANITIZER is '${TUTTI_SANITIZER}'; expected asan, tsan or fuzz")
  endif()
  add_compile_options(${TUTTI_SANITIZER_FLAGS_${TUTTI_SANITIZER}})
  add_link_options(${TUTTI_SANITIZER_FLAGS_${TUTTI_SANITIZER}})
  if(TUTTI_SANITIZER STREQUAL "tsan")
    # GCC warns that ThreadSanitizer does not see fences on their own.
    target_compile_options(tutti_flags INTERFACE -Wno-error=tsan)
  endif()
endif()
