# Installs into a stage inside the build, builds each example against it, runs it, and compares what it
# prints. Run as a test: install.find_package.

set(stage ${BUILD}/install-test)
file(REMOVE_RECURSE ${stage})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect_output expected)
  run(${ARGN})
  if(NOT output MATCHES "^${expected}$")
    message(FATAL_ERROR "${ARGN} printed\n${output}\nand not\n${expected}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${stage}/prefix)
foreach(example embed-cpp embed-c embed-wait)
  run(${CMAKE_COMMAND} -S ${SOURCE}/examples/${example} -B ${stage}/${example} -D CMAKE_BUILD_TYPE=Release
    -D CMAKE_PREFIX_PATH=${stage}/prefix -D CMAKE_C_COMPILER=${C_COMPILER} -D CMAKE_CXX_COMPILER=${CXX_COMPILER})
  run(${CMAKE_COMMAND} --build ${stage}/${example})
endforeach()

expect_output("three kinds of bread\ncents: 2100, fuel: [0-9]+, calls: 3\n" ${stage}/embed-cpp/embed_cpp)
expect_output("looks: 6, fuel: [0-9]+\n" ${stage}/embed-c/embed_c)
expect_output("shop.price of tea\\?\n7\n" ${stage}/embed-wait/embed_wait)
expect_output("membrane [0-9.]+\n" ${stage}/prefix/bin/membrane --version)
expect_output("membrane-service [0-9.]+\n" ${stage}/prefix/bin/membrane serve --version)
foreach(file LICENSE)
  if(NOT EXISTS ${stage}/prefix/share/doc/membrane/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
foreach(file catalog/add.wat verify-receipt)
  if(NOT EXISTS ${stage}/prefix/share/membrane/${file})
    message(FATAL_ERROR "share/membrane/${file} was not installed")
  endif()
endforeach()
