# One static library a folder of src/, one test executable a folder of tests/unit/.

# tutti_library(NAME [DEPS target...] [EXCLUDE file...])
# Makes tutti_NAME from every .cpp below the calling folder. A folder without sources yet makes
# an interface library, so that others can already link it.
function(tutti_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  foreach(file IN LISTS ARG_EXCLUDE)
    list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  endforeach()
  set(target tutti_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PRIVATE tutti_flags)
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope}
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/generated")
  target_link_libraries(${target} ${scope} ${ARG_DEPS})
endfunction()

# tutti_unit_tests(FOLDER LIBRARIES target...)
# Makes unit_FOLDER from tests/unit/FOLDER/**/*.cpp, one ctest entry; no folder, no target.
function(tutti_unit_tests folder)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  set(dir "${PROJECT_SOURCE_DIR}/tests/unit/${folder}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${dir}/*.cpp")
  if(NOT sources)
    return()
  endif()
  set(target unit_${folder})
  add_executable(${target} ${sources})
  # Tests are compiled more often than run.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${target} PRIVATE
    tutti_flags ${ARG_LIBRARIES} tutti_test_support GTest::gmock GTest::gtest_main)
  add_test(NAME ${target} COMMAND ${target} --gtest_brief=1
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(${target} PROPERTIES TIMEOUT 900)
  # Asking for too much memory must give an error here too, not end the process.
  set_property(TEST ${target} PROPERTY ENVIRONMENT
    "ASAN_OPTIONS=allocator_may_return_null=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1:suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp")
  set_property(GLOBAL APPEND PROPERTY TUTTI_UNIT_TESTS ${target})
endfunction()
