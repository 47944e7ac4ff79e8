# A build that is made once, as by continuous integration, where no compiler cache helps: the standard library, fmt,
# JSON and GoogleTest are read once for each kind of target, and there is no debug information but lines for the
# sanitizers. No header of ferry is precompiled, so that each source of the library still has to include what it uses of
# ferry; sources of a test are compiled several at a time, and without optimisation.
option(FERRY_BUILD_ONCE "Build faster from nothing, and slower again after a change" OFF)
if(FERRY_BUILD_ONCE)
  if(FERRY_SANITIZE)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-g1>)
  else()
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-g0>)
  endif()
  # The compiler collects its garbage from 1 GB on, which it seldom reaches, instead of from 128 MB on.
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:--param=ggc-min-heapsize=1000000>)
  # GCC 12 takes a short string that is moved for one of any length, and where headers are precompiled does not know
  # that the move is its own library's: false alarms, which builds without precompiled headers do not give.
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-error=array-bounds>)
endif()

set(_standard <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque>
  <filesystem> <fstream> <functional> <iostream> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <ranges>
  <set> <source_location> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <unordered_set>
  <utility> <variant> <vector>)
set(_json ${_standard} <fmt/format.h> <nlohmann/json.hpp>)
set(_test ${_json} <gmock/gmock.h> <gtest/gtest.h>)

# _kind(NAME HEADERS … LIBRARIES …): what targets of a kind read, and the libraries whose options they are compiled
# with.
macro(_kind name)
  cmake_parse_arguments(FERRY_PRECOMPILED_${name} "" "" "HEADERS;LIBRARIES" ${ARGN})
endmacro()
set(_ferry ferry_flags ${FERRY_LIBRARIES})
_kind(layer HEADERS ${_standard} <fmt/format.h> LIBRARIES ${_ferry})
_kind(cpu HEADERS ${_standard} <fmt/format.h> LIBRARIES ${_ferry})
_kind(library HEADERS ${_json} LIBRARIES ${_ferry})
_kind(command HEADERS ${_json} LIBRARIES ferry_flags fmt::fmt)
_kind(program HEADERS ${_json} LIBRARIES fmt::fmt)
_kind(program_library HEADERS ${_json} LIBRARIES fmt::fmt)
_kind(test HEADERS ${_test} LIBRARIES ${_ferry} GTest::gtest)
_kind(test_library HEADERS ${_test} LIBRARIES ferry_flags fmt::fmt GTest::gtest)

# ferry_precompile(TARGET KIND): in a build that is made once, TARGET takes the headers of its kind. The compiler checks
# that they were compiled with the target's options, of which its own are those of the first target of a kind.
function(ferry_precompile target kind)
  if(NOT FERRY_BUILD_ONCE)
    return()
  endif()
  # What UBSan adds to the code of tests takes a third of its compilation and says nothing of ferry.
  set(is_test_code OFF)
  if(kind MATCHES "^test")
    set(is_test_code ON)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
  set_target_properties(${target} PROPERTIES FERRY_WITHOUT_UBSAN ${is_test_code})
  set(owner ferry_precompiled_${kind})
  if(NOT TARGET ${owner})
    set(source ${PROJECT_BINARY_DIR}/generated/${owner}.cpp)
    file(WRITE ${source} "")
    add_library(${owner} OBJECT ${source})
    target_link_libraries(${owner} PRIVATE ${FERRY_PRECOMPILED_${kind}_LIBRARIES})
    get_target_property(options ${target} COMPILE_OPTIONS)
    if(options)
      target_compile_options(${owner} PRIVATE ${options})
    endif()
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      set_target_properties(${owner} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${owner} PRIVATE ${CMAKE_CXX_COMPILE_OPTIONS_PIE})
    endif()
    set_target_properties(${owner} PROPERTIES FERRY_WITHOUT_UBSAN ${is_test_code})
    target_precompile_headers(${owner} PRIVATE ${FERRY_PRECOMPILED_${kind}_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()
