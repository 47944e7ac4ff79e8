# Targets of ferry: one object library a layer, the shared library made of them, and tests that link either.

add_library(ferry_flags INTERFACE)
target_compile_options(ferry_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion>"
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${FERRY_WERROR}>>:-Werror>)
target_include_directories(ferry_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
if(FERRY_SANITIZE)
  list(JOIN FERRY_SANITIZE "," _sanitizers)
  target_compile_options(ferry_flags INTERFACE -fsanitize=${_sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all
    $<$<BOOL:$<TARGET_PROPERTY:FERRY_WITHOUT_UBSAN>>:-fno-sanitize=undefined>)
  target_link_options(ferry_flags INTERFACE -fsanitize=${_sanitizers})
endif()

set(FERRY_LIBRARIES DNNL::dnnl TBB::tbb TBB::tbbmalloc nlohmann_json::nlohmann_json fmt::fmt OpenMP::OpenMP_CXX
  PkgConfig::libhwy ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS})

include(FerryPrecompile)

# ferry_plain_if_tested(TARGET): code that takes little of the time of a test is compiled without optimisation where it
# is compiled for a sanitizer or for one run of the tests: that takes two thirds of the time.
function(ferry_plain_if_tested target)
  if(FERRY_SANITIZE OR FERRY_BUILD_ONCE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# ferry_layer(NAME FOLDER [PATTERN …]): the sources directly in FOLDER, or those that match a pattern, as object library
# ferry_NAME; those of an earlier layer stay there. A folder may add to it with a CMakeLists.txt of its own.
function(ferry_layer name folder)
  set(patterns ${ARGN})
  if(NOT patterns)
    set(patterns *.cpp)
  endif()
  list(TRANSFORM patterns PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  get_property(taken GLOBAL PROPERTY FERRY_LAYER_SOURCES)
  list(REMOVE_ITEM sources "" ${taken})
  if(NOT sources)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY FERRY_LAYER_SOURCES ${sources})
  add_library(ferry_${name} OBJECT ${sources})
  target_link_libraries(ferry_${name} PRIVATE ferry_flags ${FERRY_LIBRARIES})
  # Calls inside the library are not meant to be replaced, and its thread-local state is small: both are then cheap.
  target_compile_options(ferry_${name} PRIVATE -ftls-model=initial-exec
    $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
  set_property(GLOBAL APPEND PROPERTY FERRY_LAYERS ferry_${name})
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    include(${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
  endif()
  if(name STREQUAL cpu)
    ferry_precompile(ferry_cpu cpu)
  else()
    ferry_precompile(ferry_${name} layer)
  endif()
endfunction()

function(ferry_library)
  get_property(layers GLOBAL PROPERTY FERRY_LAYERS)
  add_library(ferry SHARED)
  add_library(ferry::ferry ALIAS ferry)
  foreach(layer IN LISTS layers)
    target_sources(ferry PRIVATE $<TARGET_OBJECTS:${layer}>)
  endforeach()
  target_link_options(ferry PRIVATE -Wl,-Bsymbolic-functions)
  set_target_properties(ferry PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION 0)
  target_link_libraries(ferry PRIVATE ferry_flags ${FERRY_LIBRARIES})
  file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/ferry/*.h)
  target_sources(ferry PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${public_headers})
  set_target_properties(ferry PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  target_compile_features(ferry PUBLIC cxx_std_20)
endfunction()

# ferry_optimized_test(NAME [TARGET …]): a test of what only an optimised build has, such as loops for each instruction
# set, times, resident memory and device code; it needs programs and the targets. The label "optimized" selects these.
function(ferry_optimized_test name)
  set_property(TEST ${name} APPEND PROPERTY LABELS optimized)
  if(ARGN)
    add_dependencies(optimized_tests ${ARGN})
  endif()
endfunction()

# ferry_test(NAME [OPTIMIZED] SOURCES … [LAYERS …] [LABELS …]): a GoogleTest binary. With LAYERS it links those layers
# alone, which shows that they need nothing above them; without, libferry.so and tests/support. OPTIMIZED: see
# ferry_optimized_test.
function(ferry_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMIZED" "" "SOURCES;LAYERS;LABELS")
  add_executable(${name} ${arg_SOURCES})
  ferry_plain_if_tested(${name})
  target_link_libraries(${name} PRIVATE ferry_flags ${FERRY_LIBRARIES} GTest::gtest GTest::gmock)
  if(arg_LAYERS)
    foreach(layer IN LISTS arg_LAYERS)
      target_sources(${name} PRIVATE $<TARGET_OBJECTS:ferry_${layer}>)
    endforeach()
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  else()
    target_link_libraries(${name} PRIVATE ferry_test_support ferry GTest::gtest_main)
  endif()
  ferry_precompile(${name} test)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "FERRY_CHECK_ORDER=1" LABELS "${arg_LABELS}")
  if(arg_OPTIMIZED)
    ferry_optimized_test(${name} ${name})
  endif()
endfunction()
