# One STEP of the tests of the package; cmake/package_tests.cmake says what each takes. Prefixes are WORK_DIR/KIND.
cmake_minimum_required(VERSION 3.25)

set(here "${CMAKE_CURRENT_LIST_DIR}")
set(prefix "${WORK_DIR}/${KIND}")
set(build "${WORK_DIR}/${NAME}")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(output_of result)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

# The flags that pkg-config gives for a package, as a list.
function(flags_of result package)
  find_program(PKG_CONFIG pkg-config REQUIRED)
  set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig:${prefix}/lib/pkgconfig")
  output_of(flags "${PKG_CONFIG}" ${ARGN} "${package}")
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(${result} "${flags}" PARENT_SCOPE)
endfunction()

# Compiles and runs the users' programs with the flags of pkg-config and what else is given.
function(run_programs)
  cmake_parse_arguments(with "" "" "PKG_CONFIG;COMPILER" ${ARGN})
  flags_of(attend rapt-attend ${with_PKG_CONFIG} --cflags --libs)
  flags_of(train rapt-train ${with_PKG_CONFIG} --cflags --libs)
  flags_of(version rapt-attend --modversion)
  file(REMOVE_RECURSE "${build}")
  file(MAKE_DIRECTORY "${build}")
  set(ENV{LD_LIBRARY_PATH} "${prefix}/${LIBDIR}:$ENV{LD_LIBRARY_PATH}")
  set(options -O1 -Wall -Wextra -Wpedantic -Werror ${with_COMPILER})
  run("${CXX}" -std=c++20 ${options} "${here}/user.cc" -o "${build}/user_cxx" ${attend})
  run("${build}/user_cxx")
  run("${CXX}" -std=c++20 ${options} "${here}/user_train.cc" -o "${build}/user_train" ${train})
  run("${build}/user_train")
  run("${CC}" -std=c99 ${options} "-DRAPT_EXPECTED_VERSION=\"${version}\"" "${here}/user.c" -o "${build}/user_c" ${attend})
  run("${build}/user_c")
endfunction()

if(STEP STREQUAL "prefix")
  file(REMOVE_RECURSE "${prefix}")
  set(component "")
  if(COMPONENT)
    set(component --component "${COMPONENT}")
  endif()
  run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --config "${CONFIG}" --prefix "${prefix}" ${component})
  if(EXISTS "${prefix}/bin/rapt")
    run("${prefix}/bin/rapt" list)
  endif()
  set(static .a)
  set(shared .so)
  foreach(library IN ITEMS attend train)
    file(GLOB found "${prefix}/${LIBDIR}/librapt_${library}.*")
    if(NOT EXISTS "${prefix}/${LIBDIR}/librapt_${library}${${KIND}}")
      message(FATAL_ERROR "librapt_${library}${${KIND}} was not installed, but: ${found}")
    endif()
  endforeach()

elseif(STEP STREQUAL "find_package")
  file(REMOVE_RECURSE "${build}")
  run("${CMAKE_COMMAND}" -S "${here}" -B "${build}" -G Ninja "-DCMAKE_PREFIX_PATH=${prefix}"
      "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_C_COMPILER=${CC}")
  run("${CMAKE_COMMAND}" --build "${build}")
  foreach(program IN ITEMS user_cxx user_train user_c)
    run("${build}/${program}")
  endforeach()

elseif(STEP STREQUAL "mpi")
  # As root, and for more processes than cores, Open MPI must be told.
  foreach(variable IN ITEMS OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe
          OMPI_MCA_mpi_yield_when_idle)
    set(ENV{${variable}} 1)
  endforeach()
  set(ENV{OMPI_MCA_btl_vader_single_copy_mechanism} none)
  execute_process(COMMAND "${MPIEXEC}" -n 2 "${CMAKE_COMMAND}" -E true RESULT_VARIABLE result ERROR_VARIABLE why TIMEOUT 60)
  if(NOT result EQUAL 0)
    message("skipped: ${MPIEXEC} cannot start two processes here: ${result} ${why}")
    return()
  endif()
  file(REMOVE_RECURSE "${build}")
  run("${CMAKE_COMMAND}" -S "${here}/mpi" -B "${build}" -G Ninja "-DCMAKE_PREFIX_PATH=${prefix}"
      "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_C_COMPILER=${CC}")
  run("${CMAKE_COMMAND}" --build "${build}")
  foreach(program IN ITEMS mpi_cxx mpi_c)
    run("${MPIEXEC}" -n 2 "${build}/${program}" TIMEOUT 120)
  endforeach()

elseif(STEP STREQUAL "pkg_config")
  run_programs()

elseif(STEP STREQUAL "static_program")
  run_programs(PKG_CONFIG --static COMPILER -static)

elseif(STEP STREQUAL "needed_libraries")
  # Of the C++ runtime; and librapt_train needs librapt_attend.
  set(runtime "libstdc\\+\\+|libc\\+\\+|libc\\+\\+abi|libunwind|libgcc_s|libm|libpthread|libc|ld-linux-[a-z0-9_-]+")
  set(attend "${runtime}")
  set(train "${runtime}|librapt_attend")
  foreach(library IN ITEMS attend train)
    output_of(dynamic "${READELF}" --dynamic --wide "${prefix}/${LIBDIR}/librapt_${library}.so")
    string(REGEX MATCHALL "NEEDED[^\n]*\\[[^]]*\\]" needed "${dynamic}")
    if(NOT needed)
      message(FATAL_ERROR "librapt_${library}.so needs nothing, which cannot be: ${dynamic}")
    endif()
    foreach(line IN LISTS needed)
      string(REGEX REPLACE ".*\\[(.*)\\]" "\\1" name "${line}")
      if(NOT name MATCHES "^(${${library}})\\.so(\\.|$)")
        message(SEND_ERROR "librapt_${library}.so needs ${name}")
      endif()
    endforeach()
  endforeach()

elseif(STEP STREQUAL "exports")
  run("${here}/check_exports.sh" "${NM}" "${ROOT}/docs/api.md" "${ABI}" "${prefix}/${LIBDIR}/librapt_attend.so"
      "${prefix}/${LIBDIR}/librapt_train.so")

elseif(STEP STREQUAL "macros")
  foreach(package IN ITEMS rapt-attend rapt-train)
    flags_of(flags ${package} --cflags)
    if(flags MATCHES "(^|;)-D")
      message(FATAL_ERROR "pkg-config --cflags ${package} defines macros: ${flags}")
    endif()
  endforeach()
  run("${here}/check_macros.sh" "${prefix}/include" "${CXX}" -std=c++20 -x c++)
  run("${here}/check_macros.sh" "${prefix}/include" "${CC}" -std=c99 -x c)

elseif(STEP STREQUAL "subproject")
  set(build "${WORK_DIR}/subproject")
  file(REMOVE "${build}/CMakeCache.txt")
  # Nothing that rapt::attend does not need is looked for. Sources by themselves are what lint and the preset dev compile.
  run("${CMAKE_COMMAND}" -S "${here}/subproject" -B "${build}" -G Ninja "-DRAPT_ROOT=${ROOT}" "-DONE_TARGET=${TARGET}"
      "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_C_COMPILER=${CC}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
      -DRAPT_UNITY=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
      -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON -DCMAKE_DISABLE_FIND_PACKAGE_PNG=ON)
  run("${CMAKE_COMMAND}" --build "${build}")
  run("${build}/user_cxx")
  run("${build}/user_c")

else()
  message(FATAL_ERROR "STEP is '${STEP}'")
endif()
