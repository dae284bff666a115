# How things are compiled: the options of every target, and the tools that make a build fast.
#
# Build types besides CMake's own:
#   Checked   for the sanitizers: assertions on, line numbers only. Floors are optimised as far as their tests run long
#             in them (membrane_floor), tests are not.

# Not in the cache: project() has put empty flags there for every build type that it does not know.
set(CMAKE_CXX_FLAGS_CHECKED "-g1 -foptimize-sibling-calls")
set(CMAKE_C_FLAGS_CHECKED "-g1 -foptimize-sibling-calls")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(MEMBRANE_CCACHE ccache)
foreach(language C CXX)
  if(MEMBRANE_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${MEMBRANE_CCACHE})
  endif()
endforeach()

add_library(membrane_options INTERFACE)
target_include_directories(membrane_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_compile_options(membrane_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wimplicit-fallthrough
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<CONFIG:Release>:$<IF:$<BOOL:$<TARGET_PROPERTY:MEMBRANE_BUILDS_QUICKLY>>,-O0,-O2>>
  $<$<BOOL:${MEMBRANE_WERROR}>:-Werror>)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies in `"text" + string` (GCC bug 105329).
  target_compile_options(membrane_options INTERFACE -Wno-restrict)
endif()

if(MEMBRANE_SANITIZE)
  target_compile_options(membrane_options INTERFACE
    -fsanitize=${MEMBRANE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # Machine code that the engine made has no hash of its type before it, which clang's check of calls would read.
  target_compile_options(membrane_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  target_link_options(membrane_options INTERFACE -fsanitize=${MEMBRANE_SANITIZE})
  if(NOT MEMBRANE_SANITIZE STREQUAL "thread")
    # At a fixed address, a program of 300 megabytes starts in four fifths of the time.
    target_link_options(membrane_options INTERFACE -no-pie)
  else()
    # ThreadSanitizer keeps signals for itself, and counts calls by their returns.
    target_compile_definitions(membrane_options INTERFACE MEMBRANE_EXPLICIT_BOUNDS MEMBRANE_NO_TAIL_CALLS)
  endif()
endif()
if(MEMBRANE_FUZZERS)
  # The libraries too: a fuzzer that cannot see which branches they take fuzzes blindly. Not what no fuzzer has: the tests,
  # and the command.
  set(is_test $<BOOL:$<TARGET_PROPERTY:MEMBRANE_BUILDS_QUICKLY>>)
  set(is_command $<BOOL:$<TARGET_PROPERTY:MEMBRANE_NOT_FUZZED>>)
  target_compile_options(membrane_options INTERFACE
    $<$<NOT:$<OR:${is_test},${is_command}>>:-fsanitize=fuzzer-no-link>)
endif()
if(MEMBRANE_COVERAGE)
  target_compile_options(membrane_options INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(membrane_options INTERFACE --coverage)
endif()

# mold links a sanitized test in a tenth of the time. What is released is linked by the system's own linker.
find_program(MEMBRANE_MOLD mold)
if(MEMBRANE_MOLD AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  target_link_options(membrane_options INTERFACE -fuse-ld=mold)
endif()
