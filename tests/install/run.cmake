# One step of the test of the installed package: STEP is prefix, find_package or pkg_config.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(STEP STREQUAL "prefix")
  file(REMOVE_RECURSE "${WORK_DIR}")
  run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --config "${CONFIG}" --prefix "${PREFIX}")
  if(EXISTS "${PREFIX}/bin/rapt")
    run("${PREFIX}/bin/rapt" list)
  endif()

elseif(STEP STREQUAL "find_package")
  set(build "${WORK_DIR}/find_package")
  run("${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${build}" -G Ninja "-DCMAKE_PREFIX_PATH=${PREFIX}"
      "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_C_COMPILER=${CC}")
  run("${CMAKE_COMMAND}" --build "${build}")
  run("${build}/user_cxx")
  run("${build}/user_c")

elseif(STEP STREQUAL "pkg_config")
  find_program(PKG_CONFIG pkg-config REQUIRED)
  set(ENV{PKG_CONFIG_PATH} "${PREFIX}/${LIBDIR}/pkgconfig:${PREFIX}/lib/pkgconfig")
  execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs rapt OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(ENV{LD_LIBRARY_PATH} "${PREFIX}/${LIBDIR}:$ENV{LD_LIBRARY_PATH}")
  set(build "${WORK_DIR}/pkg_config")
  file(MAKE_DIRECTORY "${build}")
  run("${CXX}" -std=c++20 -O1 "${SOURCE_DIR}/user.cc" -o "${build}/user_cxx" ${flags})
  run("${build}/user_cxx")
  execute_process(COMMAND "${PKG_CONFIG}" --modversion rapt OUTPUT_VARIABLE version
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  run("${CC}" -std=c99 -O1 "-DRAPT_EXPECTED_VERSION=\"${version}\"" "${SOURCE_DIR}/user.c" -o "${build}/user_c" ${flags})
  run("${build}/user_c")

else()
  message(FATAL_ERROR "STEP is '${STEP}'; it must be prefix, find_package or pkg_config")
endif()
