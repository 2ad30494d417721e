# Adds examples/new_mechanism/NAME.h to a copy of the library exactly as docs/mechanisms.md says, one file and one line, and
# checks that everything else follows. Takes SOURCE_DIR, BUILD_DIR, WORK_DIR, CXX and TARGET, the one SIMD target to compile.
# The tool and librapt_train know no mechanism by themselves: they are not compiled again, but linked with the new librapt_attend.
cmake_minimum_required(VERSION 3.25)

set(name kerple)
set(tree "${WORK_DIR}/tree")
set(build "${WORK_DIR}/build")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Timestamps are kept, so that a second run builds only what changed.
file(REMOVE_RECURSE "${tree}")
foreach(part IN ITEMS CMakeLists.txt LICENSE cmake data docs include src)
  file(COPY "${SOURCE_DIR}/${part}" DESTINATION "${tree}" PATTERN peers EXCLUDE)
endforeach()
# Of the tests only those that ask the registry what there is.
foreach(part IN ITEMS cuda isa oracle registry support)
  file(COPY "${SOURCE_DIR}/tests/${part}" DESTINATION "${tree}/tests")
endforeach()
foreach(suite IN ITEMS gradient_check influence oracle properties)
  file(COPY "${SOURCE_DIR}/tests/attend/${suite}_test.cc" DESTINATION "${tree}/tests/attend")
endforeach()

# A copy older than what was built from the last one would pass for done.
file(TOUCH "${tree}/docs/mechanisms.md")

# One file and one line.
file(COPY "${SOURCE_DIR}/examples/new_mechanism/${name}.h" DESTINATION "${tree}/src/mechanisms")
file(APPEND "${tree}/src/mechanisms/registry.txt" "${name}\n")

run("${CMAKE_COMMAND}" -S "${tree}" -B "${build}" -G Ninja --log-level=WARNING "-DCMAKE_CXX_COMPILER=${CXX}"
    -DCMAKE_CXX_COMPILER_LAUNCHER= -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 "-DRAPT_TARGETS=${TARGET}"
    -DRAPT_INSTALL=OFF -DRAPT_BUILD_CLI=OFF)
run("${CMAKE_COMMAND}" --build "${build}" --target rapt_attend_static rapt_attend_test)

file(READ "${BUILD_DIR}/build.ninja" ninja)
if(NOT ninja MATCHES "\nbuild rapt: [^\n]*\n([ ][^\n]*\n)*  LINK_LIBRARIES = ([^\n]*)\n")
  message(FATAL_ERROR "${BUILD_DIR}/build.ninja does not say how the tool is linked")
endif()
string(REGEX REPLACE "(^| )librapt_attend\\.a" "\\1${build}/librapt_attend.a" libraries "${CMAKE_MATCH_2}")
separate_arguments(libraries UNIX_COMMAND "${libraries}")
execute_process(COMMAND "${CXX}" CMakeFiles/rapt_cli.dir/cli/main.cc.o -o "${build}/rapt" ${libraries}
                WORKING_DIRECTORY "${BUILD_DIR}" COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
run("${CMAKE_COMMAND}" "-DRAPT=${build}/rapt" "-DDOCUMENT=${tree}/docs/mechanisms.md"
    -P "${SOURCE_DIR}/cmake/mechanism_table.cmake")

run("${CMAKE_CURRENT_LIST_DIR}/check.sh" "${build}/rapt" "${WORK_DIR}/arrays")
execute_process(COMMAND "${build}/rapt_attend_test" "--gtest_filter=*/${name}*" COMMAND_ECHO STDOUT OUTPUT_VARIABLE output
                ECHO_OUTPUT_VARIABLE COMMAND_ERROR_IS_FATAL ANY)
# A filter that matches nothing would pass too.
foreach(suite IN ITEMS GradientCheck Influence Properties)
  if(NOT output MATCHES "OK \\] Registry/${suite}\\.[A-Za-z]+/${name}")
    message(FATAL_ERROR "no test of ${suite} ran for ${name}")
  endif()
endforeach()
# Everything works without it, but a mechanism that is to stay needs a second formula, and a test says where.
execute_process(COMMAND "${build}/rapt_attend_test" "--gtest_filter=Oracle.KnowsWhatTheRegistriesHave" RESULT_VARIABLE status
                OUTPUT_VARIABLE output)
if(status EQUAL 0 OR NOT output MATCHES "the mechanism '${name}' has no second formula [^\n]*tests/oracle/formulas.cc")
  message(FATAL_ERROR "the oracle's test does not say that ${name} is missing:\n${output}")
endif()

file(READ "${tree}/docs/mechanisms.md" text)
if(NOT text MATCHES "\n\\| `${name}` \\| q·k/√Dk − a·log")
  message(FATAL_ERROR "docs/mechanisms.md has no row for ${name}")
endif()
