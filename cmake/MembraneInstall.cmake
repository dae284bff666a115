# What `cmake --install` puts where: the command, one library of all the floors up to the face, the
# public headers, the catalog, and a CMake package.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# One archive, made of the floors' own objects. What they link with is the system's alone; a C program has to
# name the libraries of C++ to its linker, too.
set(objects base wasm engine policy host wasi lang sandbox packages worker face)
list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:membrane_\\1>")
add_library(libmembrane STATIC ${objects})
set_target_properties(libmembrane PROPERTIES OUTPUT_NAME membrane EXPORT_NAME membrane LINKER_LANGUAGE CXX)
target_link_libraries(libmembrane PUBLIC Threads::Threads ${CMAKE_DL_LIBS} INTERFACE $<LINK_ONLY:stdc++> $<LINK_ONLY:m>)
target_include_directories(libmembrane INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(libmembrane INTERFACE $<INSTALL_INTERFACE:cxx_std_23>)
add_library(membrane::membrane ALIAS libmembrane)

# The same as a shared library, which exports the public face and nothing else (libmembrane.map). Before 1.0 a minor version may change it.
set(libraries libmembrane)
if(NOT MEMBRANE_SANITIZE)  # whose own functions are in the program alone
  list(APPEND libraries libmembrane_shared)
  add_library(libmembrane_shared SHARED ${objects})
  set_target_properties(libmembrane_shared PROPERTIES OUTPUT_NAME membrane EXPORT_NAME membrane_shared LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/libmembrane.map)
  target_link_libraries(libmembrane_shared PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(libmembrane_shared PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/libmembrane.map LINKER:--no-undefined
    LINKER:-z,nodelete)  # its handlers of signals and its thread are the process's
  target_include_directories(libmembrane_shared INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(libmembrane_shared INTERFACE $<INSTALL_INTERFACE:cxx_std_23>)
endif()
configure_file(cmake/membrane.pc.in membrane.pc @ONLY)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/membrane)
configure_package_config_file(cmake/membrane-config.cmake.in membrane-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(membrane-config-version.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS membrane RUNTIME)
install(TARGETS membrane-service RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/membrane)
install(TARGETS ${libraries} EXPORT membrane-targets ARCHIVE LIBRARY)
install(TARGETS membrane-worker EXPORT membrane-targets RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/membrane)
install(EXPORT membrane-targets NAMESPACE membrane:: DESTINATION ${package_dir})
export(EXPORT membrane-targets NAMESPACE membrane:: FILE ${CMAKE_BINARY_DIR}/membrane-targets.cmake)  # for the build tree itself
install(FILES ${CMAKE_BINARY_DIR}/membrane.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/membrane-config.cmake ${CMAKE_BINARY_DIR}/membrane-config-version.cmake
  DESTINATION ${package_dir})
install(DIRECTORY include/membrane TYPE INCLUDE FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY catalog DESTINATION ${CMAKE_INSTALL_DATADIR}/membrane FILES_MATCHING PATTERN "*.wat")
install(PROGRAMS tools/get-languages tools/bundle-typescript tools/bundle-time-zones tools/verify-receipt DESTINATION ${CMAKE_INSTALL_DATADIR}/membrane)
install(FILES LICENSE TYPE DOC)

# The manual page and the completions are the command's own words.
if(NOT CMAKE_CROSSCOMPILING)
  set(words ${CMAKE_BINARY_DIR}/words)
  add_custom_command(OUTPUT ${words}/membrane.1 ${words}/membrane ${words}/_membrane ${words}/membrane.fish
    COMMAND ${CMAKE_COMMAND} -E make_directory ${words}
    COMMAND membrane man > ${words}/membrane.1
    COMMAND membrane completion bash > ${words}/membrane
    COMMAND membrane completion zsh > ${words}/_membrane
    COMMAND membrane completion fish > ${words}/membrane.fish
    DEPENDS membrane VERBATIM)
  add_custom_target(words ALL DEPENDS ${words}/membrane.1)
  install(FILES ${words}/membrane.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${words}/membrane DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${words}/_membrane DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${words}/membrane.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(DIRECTORY docs/ TYPE DOC FILES_MATCHING PATTERN "*.md")
install(FILES docs/report.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/membrane)

# The examples, as a stranger builds them: against what was installed, and nothing else.
if(MEMBRANE_TESTS AND NOT MEMBRANE_SANITIZE AND NOT MEMBRANE_COVERAGE AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME install.find_package
    COMMAND ${CMAKE_COMMAND} -D BUILD=${CMAKE_BINARY_DIR} -D SOURCE=${PROJECT_SOURCE_DIR}
      -D C_COMPILER=${CMAKE_C_COMPILER} -D CXX_COMPILER=${CMAKE_CXX_COMPILER}
      -P ${PROJECT_SOURCE_DIR}/cmake/TestInstall.cmake)
  set_tests_properties(install.find_package PROPERTIES TIMEOUT ${MEMBRANE_HANGS_AFTER_S} COST 100)
endif()
