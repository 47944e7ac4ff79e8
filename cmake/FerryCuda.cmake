# The CUDA plug-in, libferry_cuda.so, where the CUDA toolkit is installed. It links the CUDA runtime and never the
# driver's library, so that it loads everywhere; cuBLAS, cuDNN and CUPTI are opened when they are needed.

set(FERRY_CUDA AUTO CACHE STRING "Build the CUDA plug-in: AUTO (where the toolkit is found), ON or OFF")
set(FERRY_CUDA_ARCHITECTURES "75;80;86;89;90" CACHE STRING
  "Compute capabilities that the plug-in is compiled for; PTX of the last one serves newer GPUs")

if(NOT FERRY_CUDA STREQUAL OFF)
  find_package(CUDAToolkit 12.4 QUIET)
endif()
if(FERRY_CUDA STREQUAL ON AND NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR "FERRY_CUDA is ON, and no CUDA toolkit (12.4 or newer) is found; see docs/gpu.md")
endif()
# Sanitizers do not see through nvcc; the plug-in's host code is tested with them on the stand-in in tests/fake_cudart.
set(FERRY_BUILD_CUDA OFF)
if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND NOT FERRY_SANITIZE)
  set(FERRY_BUILD_CUDA ON)
endif()

if(CUDAToolkit_FOUND)
  file(GLOB FERRY_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/cuda/*.cpp)
  file(GLOB FERRY_CUDA_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/cuda/*.cu)
  set(FERRY_CUDA_LIBRARY_NAMES ${PROJECT_SOURCE_DIR}/src/backends/cuda/library_names.cpp)
  list(REMOVE_ITEM FERRY_CUDA_SOURCES ${FERRY_CUDA_LIBRARY_NAMES})
  # cuDNN is not part of the toolkit: without its headers, a stub says that it is missing.
  find_path(FERRY_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  set(_unused ${PROJECT_SOURCE_DIR}/src/backends/cuda/cudnn_absent.cpp)
  if(NOT FERRY_CUDNN_INCLUDE_DIR)
    set(_unused "")
    foreach(_file cudnn_convolution cudnn_layers cudnn_library)
      list(APPEND _unused ${PROJECT_SOURCE_DIR}/src/backends/cuda/${_file}.cpp)
    endforeach()
  endif()
  # CUPTI's headers are in a folder of their own in NVIDIA's packages.
  find_path(FERRY_CUPTI_INCLUDE_DIR cupti.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_BIN_DIR}/../extras/CUPTI/include)
  if(FERRY_CUPTI_INCLUDE_DIR)
    list(APPEND _unused ${PROJECT_SOURCE_DIR}/src/backends/cuda/cupti_absent.cpp)
  else()
    foreach(_file activity_log activity_reader activity_tracer)
      list(APPEND _unused ${PROJECT_SOURCE_DIR}/src/backends/cuda/${_file}.cpp)
    endforeach()
  endif()
  list(REMOVE_ITEM FERRY_CUDA_SOURCES ${_unused})
  set(FERRY_CUDA_INCLUDE_DIRS ${CUDAToolkit_INCLUDE_DIRS})
  foreach(_folder FERRY_CUDNN_INCLUDE_DIR FERRY_CUPTI_INCLUDE_DIR)
    if(${_folder})
      list(APPEND FERRY_CUDA_INCLUDE_DIRS ${${_folder}})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES FERRY_CUDA_INCLUDE_DIRS)
endif()

# ferry_cuda_module(NAME LIBRARY SOURCES …): a plug-in from the sources, on a library with the functions of the CUDA
# runtime.
function(ferry_cuda_module name library)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE ferry ferry_flags fmt::fmt ${library} ${CMAKE_DL_LIBS})
  target_include_directories(${name} SYSTEM PRIVATE ${FERRY_CUDA_INCLUDE_DIRS})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX CUDA_RUNTIME_LIBRARY None)
endfunction()

if(FERRY_BUILD_CUDA)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  list(TRANSFORM FERRY_CUDA_ARCHITECTURES APPEND -real OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
  list(GET FERRY_CUDA_ARCHITECTURES -1 _newest)
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${_newest}-virtual)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows no C++20 of nvcc
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)

  add_library(ferry_cuda_objects OBJECT ${FERRY_CUDA_SOURCES} ${FERRY_CUDA_KERNELS})
  target_link_libraries(ferry_cuda_objects PRIVATE ferry_flags fmt::fmt)
  target_include_directories(ferry_cuda_objects SYSTEM PRIVATE ${FERRY_CUDA_INCLUDE_DIRS})
  set_target_properties(ferry_cuda_objects PROPERTIES CUDA_RUNTIME_LIBRARY None)
  # No contraction to fused multiply-add: elements get the values that the CPU's kernels give. fmt leaves constant
  # expressions out under nvcc, and then does not compile. 186: comparisons that are pointless for one of the types.
  set(_cuda_options --expt-relaxed-constexpr -fmad=false -diag-suppress=186 -Xcompiler=-Wall,-Wextra)
  if(FERRY_WERROR)
    list(APPEND _cuda_options -Werror=all-warnings -Xcompiler=-Werror)
  endif()
  target_compile_options(ferry_cuda_objects PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${_cuda_options}>")
  # Registers that spill to memory would cost an elementwise kernel its speed unnoticed: an error of the build.
  foreach(_kernel elementwise indexing losses movement optimizer random recurrent)
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backends/cuda/${_kernel}.cu APPEND PROPERTY
      COMPILE_OPTIONS -Xptxas=-warn-spills,-Werror)
  endforeach()
  target_compile_definitions(ferry_cuda_objects PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)

  ferry_cuda_module(ferry_cuda CUDA::cudart $<TARGET_OBJECTS:ferry_cuda_objects> ${FERRY_CUDA_LIBRARY_NAMES})
  set(_rpath "$ORIGIN;${CUDAToolkit_LIBRARY_DIR};${CUDAToolkit_BIN_DIR}/../extras/CUPTI/lib64")
  set_target_properties(ferry_cuda PROPERTIES BUILD_RPATH "${_rpath}" INSTALL_RPATH "${_rpath}")
  install(TARGETS ferry_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  add_dependencies(ferry_cuda_objects ferry)
  message(STATUS "CUDA plug-in: toolkit ${CUDAToolkit_VERSION}, compute capabilities ${FERRY_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA plug-in: not built")
endif()
