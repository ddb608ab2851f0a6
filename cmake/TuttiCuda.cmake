# CUDA for the plug-in libtutti_cuda.so. Our kernels are compiled at run time, so building needs the
# toolkit's headers and its static run time only, not nvcc and no GPU.

set(TUTTI_BUILD_CUDA AUTO CACHE STRING "Build the CUDA plug-in: ON, OFF, or AUTO where CUDA 13 is found")
set_property(CACHE TUTTI_BUILD_CUDA PROPERTY STRINGS AUTO ON OFF)

set(TUTTI_HAS_CUDA OFF)
if(NOT TUTTI_BUILD_CUDA STREQUAL "OFF")
  find_path(TUTTI_CUDA_INCLUDE cuda_runtime_api.h
    PATHS /usr/local/cuda/include "$ENV{CUDA_HOME}/include")
  find_library(TUTTI_CUDART_STATIC cudart_static
    PATHS /usr/local/cuda/lib64 "$ENV{CUDA_HOME}/lib64")
  if(TUTTI_CUDA_INCLUDE AND TUTTI_CUDART_STATIC AND EXISTS "${TUTTI_CUDA_INCLUDE}/nvrtc.h"
     AND EXISTS "${TUTTI_CUDA_INCLUDE}/cublasLt.h")
    file(STRINGS "${TUTTI_CUDA_INCLUDE}/cuda_runtime_api.h" version
      REGEX "^#define CUDART_VERSION +[0-9]+")
    string(REGEX REPLACE "[^0-9]" "" version "${version}")
    if(version GREATER_EQUAL 13000)
      set(TUTTI_HAS_CUDA ON)
    endif()
  endif()
  if(TUTTI_BUILD_CUDA STREQUAL "ON" AND NOT TUTTI_HAS_CUDA)
    message(FATAL_ERROR "TUTTI_BUILD_CUDA is ON, but CUDA 13's headers and libcudart_static.a are not found")
  endif()
endif()

if(TUTTI_HAS_CUDA)
  add_library(tutti_cudart INTERFACE)
  target_include_directories(tutti_cudart SYSTEM INTERFACE "${TUTTI_CUDA_INCLUDE}")
  target_link_libraries(tutti_cudart INTERFACE
    "${TUTTI_CUDART_STATIC}" Threads::Threads ${CMAKE_DL_LIBS} rt)
endif()
message(STATUS "CUDA plug-in: ${TUTTI_HAS_CUDA}")

# cuDNN's C++ front end (a wheel, headers only) and the headers of cuDNN itself; the library is found at
# run time. Without them our own kernels do it all.
set(TUTTI_HAS_CUDNN OFF)
if(TUTTI_HAS_CUDA)
  file(GLOB wheel_includes "${TUTTI_VENV}/lib/python3*/site-packages/include")
  find_path(TUTTI_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h PATHS ${wheel_includes} NO_DEFAULT_PATH)
  find_path(TUTTI_CUDNN_INCLUDE cudnn_graph.h PATHS "${TUTTI_CUDA_INCLUDE}" "$ENV{CUDNN_HOME}/include")
  if(TUTTI_CUDNN_FRONTEND_INCLUDE AND TUTTI_CUDNN_INCLUDE)
    set(TUTTI_HAS_CUDNN ON)
  endif()
endif()
message(STATUS "cuDNN in the CUDA plug-in: ${TUTTI_HAS_CUDNN}")
