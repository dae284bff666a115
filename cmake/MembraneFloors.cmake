# One folder is one library: membrane_floor(wasm DEPENDS base) makes the target
# membrane_wasm from wasm/*.cc (and wasm/*/*.cc), and by the end of a file's name
#
#   *_test.cc, *_testing.cc   wasm_test, whose cases ctest runs one by one
#   *_bench.cc                wasm_bench (Google Benchmark)
#   *_fuzz.cc                 a libFuzzer target each
#   *_main.cc                 nothing: a program says by itself what it is made of
#
# and a test that the library needs nothing but the floors that it names (membrane_links).
#
# A floor may have rooms, which are folders of it: `testing`, the last of them, is a library of its own
# (membrane_engine_testing), for the tests and fuzzers of all floors and for a program that asks for it.
#
#   membrane_floor(NAME [OUTER] [DEPENDS floor…] [ROOMS folder…] [LIBRARIES target…] [TEST_COST number])
#     OUTER      tests spend no time in its code, so the sanitizers' builds compile it without optimisation
#     DEPENDS    floors below this one; tools/check-floors reads these lines, too
#     ROOMS      folders, from the lowest: each may use itself and those before it (tools/check-floors)
#     LIBRARIES  external libraries; not seen by the floors above
#     TEST_COST  ctest begins with the cases of the greatest cost, so that no long one is left for the end

# A test that takes so long hangs. Far more than any needs on a slow and busy machine: no outcome depends on it.
set(MEMBRANE_HANGS_AFTER_S 1800)

find_package(Threads REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(MEMBRANE_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(MEMBRANE_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
if(MEMBRANE_FUZZERS)
  add_custom_target(fuzzers)
endif()

function(membrane_floor name)
  cmake_parse_arguments(ARG "OUTER" "TEST_COST" "DEPENDS;ROOMS;LIBRARIES" ${ARGN})
  if(NOT ARG_TEST_COST)
    set(ARG_TEST_COST 0)
  endif()
  set(root ${PROJECT_SOURCE_DIR}/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/*.cc)
  set(tests ${sources})
  set(benches ${sources})
  set(fuzzers ${sources})
  set(testing)
  if("testing" IN_LIST ARG_ROOMS)
    set(testing ${sources})
    list(FILTER testing INCLUDE REGEX "^${root}/testing/")
    list(FILTER testing EXCLUDE REGEX "(_test|_bench|_fuzz|_main)\\.cc$")
    list(REMOVE_ITEM sources ${testing})
    list(REMOVE_ITEM tests ${testing})
  endif()
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|_fuzz|_testing|_main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "(_test|_testing)\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  membrane_keeps_wanted(tests)

  add_library(membrane_${name} STATIC ${sources})
  membrane_compiles_together(membrane_${name})
  target_link_libraries(membrane_${name} PUBLIC membrane_options Threads::Threads)
  if(NOT ARG_OUTER)
    target_compile_options(membrane_${name} PRIVATE $<$<CONFIG:Checked>:-O1>)
  endif()
  foreach(dep IN LISTS ARG_DEPENDS)
    if(NOT TARGET membrane_${dep})
      message(FATAL_ERROR "Floor ${name} depends on ${dep}, which does not stand above it in CMakeLists.txt")
    endif()
    target_link_libraries(membrane_${name} PUBLIC membrane_${dep})
  endforeach()
  target_link_libraries(membrane_${name} PRIVATE ${ARG_LIBRARIES})
  if(testing)
    add_library(membrane_${name}_testing STATIC ${testing})
    membrane_compiles_together(membrane_${name}_testing)
    target_compile_options(membrane_${name}_testing PRIVATE $<$<CONFIG:Checked>:-O1>)
    target_link_libraries(membrane_${name}_testing PUBLIC membrane_${name})
    set(testing membrane_${name}_testing)
  endif()

  if(MEMBRANE_TESTS AND NOT MEMBRANE_SANITIZE)
    membrane_links(${name})
  endif()
  if(MEMBRANE_TESTS AND tests)
    add_executable(${name}_test ${tests})
    membrane_uses(${name}_test ${name} ${testing} ${ARG_LIBRARIES} GTest::gtest GTest::gtest_main)
    membrane_builds_quickly(${name}_test)
    membrane_compiles_together(${name}_test)
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT ${MEMBRANE_HANGS_AFTER_S}
      PROPERTIES TIMEOUT ${MEMBRANE_HANGS_AFTER_S} COST ${ARG_TEST_COST})
  endif()
  if(MEMBRANE_BENCHMARKS AND benches)
    add_executable(${name}_bench ${benches})
    membrane_uses(${name}_bench ${name} ${ARG_LIBRARIES} benchmark::benchmark benchmark::benchmark_main)
  endif()
  if(MEMBRANE_FUZZERS)
    foreach(fuzzer IN LISTS fuzzers)
      get_filename_component(target ${fuzzer} NAME_WE)
      add_executable(${target} ${fuzzer})
      membrane_uses(${target} ${name} ${testing} ${ARG_LIBRARIES})
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
      add_dependencies(fuzzers ${target})
    endforeach()
  endif()
endfunction()

# ThreadSanitizer's build has only the test files with a case that its test preset runs, and what cases stand on: a
# third of the work.
if(MEMBRANE_SANITIZE STREQUAL "thread")
  file(READ ${PROJECT_SOURCE_DIR}/CMakePresets.json presets)
  string(JSON count LENGTH ${presets} testPresets)
  math(EXPR last "${count} - 1")
  foreach(index RANGE ${last})
    string(JSON preset GET ${presets} testPresets ${index} name)
    if(preset STREQUAL "tsan")
      string(JSON MEMBRANE_CASES_OF_THREADS GET ${presets} testPresets ${index} filter include name)
    endif()
  endforeach()
endif()
function(membrane_keeps_wanted list)
  if(NOT MEMBRANE_SANITIZE STREQUAL "thread")
    return()
  endif()
  set(kept)
  foreach(source IN LISTS ${list})
    file(STRINGS ${source} cases REGEX "^TEST(_F|_P)?\\(.*(${MEMBRANE_CASES_OF_THREADS})")
    if(cases OR source MATCHES "_testing\\.cc$")
      list(APPEND kept ${source})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()

# What tests, benchmarks and fuzzers of a floor have in common.
function(membrane_uses target floor)
  target_link_libraries(${target} PRIVATE membrane_${floor} ${ARGN})
  # Only the files that read from the source tree are given its path: all others compile to the same objects in every
  # checkout, so checkouts share a compiler cache.
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "_testing\\.cc$")  # such as the reference interpreter, in which tests spend their time
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Checked>:-O1>)
    endif()
    file(STRINGS ${source} uses_source_dir REGEX "MEMBRANE_SOURCE_DIR" LIMIT_COUNT 1)
    if(uses_source_dir)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS MEMBRANE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    endif()
  endforeach()
endfunction()

# Tests are compiled once and run for seconds: without optimisation they build in half of the time. What the cases stand
# on (*_testing.cc, the reference interpreter among it) is optimised like the libraries. A property decides, since options
# of a target's own come before those of membrane_options, and the last -O wins.
function(membrane_builds_quickly target)
  set_target_properties(${target} PROPERTIES MEMBRANE_BUILDS_QUICKLY ON)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "_testing\\.cc$")
  set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)
  if(MEMBRANE_MOLD AND NOT CMAKE_CROSSCOMPILING)
    target_link_options(${target} PRIVATE -fuse-ld=mold)
  endif()
endfunction()

# With MEMBRANE_UNITY: compiles files of a target as one, as far as tools/group-sources finds that they may be.
function(membrane_compiles_together target)
  if(NOT MEMBRANE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  execute_process(COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tools/group-sources ${sources}
    OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([0-9]+) (.*)$" line "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# The whole library, and nothing but the floors that it names, must make a program: a symbol that
# lives higher up is undefined here. (Linked in other programs, it would be found by luck.)
function(membrane_links name)
  set(source ${CMAKE_BINARY_DIR}/links/empty_main.cc)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "int main() {}\n")
  endif()
  add_executable(${name}_links ${source})
  target_link_libraries(${name}_links PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,membrane_${name}>)
  target_link_options(${name}_links PRIVATE -Wl,--no-undefined)
  set_target_properties(${name}_links PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/links)
  add_test(NAME links.${name} COMMAND ${name}_links)
endfunction()

# A check of the sources by a Python program; passes with exit code 0.
function(membrane_source_check name)
  add_test(NAME source.${name} COMMAND ${Python3_EXECUTABLE} -B ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(source.${name} PROPERTIES TIMEOUT ${MEMBRANE_HANGS_AFTER_S})
endfunction()
