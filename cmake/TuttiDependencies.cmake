# Libraries from Debian and from the venv that scripts/setup makes.
# docs/decisions/0001-dependencies.md says why each was chosen.

set(TUTTI_VENV "${PROJECT_SOURCE_DIR}/.venv" CACHE PATH "Python venv made by scripts/setup")
set(TUTTI_PYTHON "${TUTTI_VENV}/bin/python")
if(NOT EXISTS "${TUTTI_PYTHON}")
  message(FATAL_ERROR "No Python venv at ${TUTTI_VENV}: run scripts/setup first")
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

if(TUTTI_BUILD_SERVER)
  find_package(absl CONFIG REQUIRED)  # what gRPC is built on
  find_package(gRPC CONFIG REQUIRED)
  find_package(Boost REQUIRED)
  find_package(OpenSSL REQUIRED)
  find_package(prometheus-cpp CONFIG REQUIRED)
  find_program(TUTTI_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
endif()

# oneDNN, as the wheel lays it out. Its OpenMP run time is GCC's; callers hold it to one thread.
find_path(TUTTI_ONEDNN_INCLUDE dnnl.hpp PATHS "${TUTTI_VENV}/include" NO_DEFAULT_PATH REQUIRED)
find_library(TUTTI_ONEDNN_LIBRARY dnnl PATHS "${TUTTI_VENV}/lib" NO_DEFAULT_PATH REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
add_library(tutti_onednn SHARED IMPORTED)
add_library(tutti::onednn ALIAS tutti_onednn)
set_target_properties(tutti_onednn PROPERTIES
  IMPORTED_LOCATION "${TUTTI_ONEDNN_LIBRARY}"
  IMPORTED_SONAME libdnnl.so.3
  INTERFACE_INCLUDE_DIRECTORIES "${TUTTI_ONEDNN_INCLUDE}"
  INTERFACE_LINK_LIBRARIES OpenMP::OpenMP_CXX)
