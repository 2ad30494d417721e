# The package as a user's project sees it: installed, with both kinds of library, through this compiler and another one;
# and built within another project. A sanitized library cannot serve a plain program.
if(NOT RAPT_INSTALL OR RAPT_SANITIZE)
  return()
endif()

set(rapt_install_work "${PROJECT_BINARY_DIR}/install_test")
set(rapt_install_script "${PROJECT_SOURCE_DIR}/tests/install/run.cmake")
set(rapt_kinds static shared)

# The kind that is not in the package: made of the same objects, and never installed with it.
set(rapt_other_kind ${rapt_kinds})
list(REMOVE_ITEM rapt_other_kind ${rapt_kind})
rapt_install_package(${rapt_other_kind} COMPONENT rapt_${rapt_other_kind} EXCLUDE_FROM_ALL)

# rapt_install_test(NAME STEP [-D…]…)
function(rapt_install_test name step)
  add_test(NAME install_${name} COMMAND "${CMAKE_COMMAND}" -DSTEP=${step} -DBUILD_DIR=${PROJECT_BINARY_DIR}
    -DWORK_DIR=${rapt_install_work} -DROOT=${PROJECT_SOURCE_DIR} -DCONFIG=${CMAKE_BUILD_TYPE}
    -DLIBDIR=${CMAKE_INSTALL_LIBDIR} ${ARGN} -P "${rapt_install_script}")
  set_tests_properties(install_${name} PROPERTIES TIMEOUT 600 LABELS install)
endfunction()

foreach(kind IN LISTS rapt_kinds)
  set(component "")
  if(NOT kind STREQUAL rapt_kind)
    set(component -DCOMPONENT=rapt_${kind})
  endif()
  rapt_install_test(prefix_${kind} prefix -DKIND=${kind} ${component})
  set_tests_properties(install_prefix_${kind} PROPERTIES FIXTURES_SETUP installed_${kind} RESOURCE_LOCK build_tree)
endforeach()

# This compiler, and the other one of GCC and Clang.
set(rapt_compilers gcc clang)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(rapt_own_compiler gcc)
  find_program(RAPT_OTHER_CXX NAMES clang++ clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)
else()
  set(rapt_own_compiler clang)
  find_program(RAPT_OTHER_CXX NAMES g++)
endif()
mark_as_advanced(RAPT_OTHER_CXX)
string(REGEX REPLACE "clang\\+\\+([^/]*)$" "clang\\1" rapt_other_c "${RAPT_OTHER_CXX}")
string(REGEX REPLACE "g\\+\\+$" "gcc" rapt_other_c "${rapt_other_c}")

file(WRITE "${PROJECT_BINARY_DIR}/static_program/main.cc" "#include <vector>\nint main() { return std::vector<int>(3)[2]; }\n")
if(NOT DEFINED RAPT_STATIC_PROGRAMS)
  try_compile(RAPT_STATIC_PROGRAMS "${PROJECT_BINARY_DIR}/static_program" "${PROJECT_BINARY_DIR}/static_program/main.cc"
              LINK_OPTIONS -static)
endif()

foreach(compiler IN LISTS rapt_compilers)
  set(missing "")
  if(compiler STREQUAL rapt_own_compiler)
    set(arguments -DCXX=${CMAKE_CXX_COMPILER} -DCC=${CMAKE_C_COMPILER})
  else()
    set(arguments -DCXX=${RAPT_OTHER_CXX} -DCC=${rapt_other_c})
    if(NOT RAPT_OTHER_CXX)
      set(missing "${compiler} was not found")
    endif()
  endif()
  foreach(kind IN LISTS rapt_kinds)
    foreach(step IN ITEMS find_package pkg_config)
      set(name ${step}_${kind}_${compiler})
      if(missing)
        rapt_skipped_test(install_${name} "${missing}")
      else()
        rapt_install_test(${name} ${step} -DKIND=${kind} -DNAME=${name} ${arguments})
        set_tests_properties(install_${name} PROPERTIES FIXTURES_REQUIRED installed_${kind})
      endif()
    endforeach()
  endforeach()
  set(name static_program_${compiler})
  if(missing)
    rapt_skipped_test(install_${name} "${missing}")
  elseif(NOT RAPT_STATIC_PROGRAMS)
    rapt_skipped_test(install_${name} "this system has no static C++ runtime")
  else()
    rapt_install_test(${name} static_program -DKIND=static -DNAME=${name} ${arguments})
    set_tests_properties(install_${name} PROPERTIES FIXTURES_REQUIRED installed_static)
  endif()
endforeach()

# Programs of two processes, where this build has MPI.
foreach(kind IN LISTS rapt_kinds)
  set(name mpi_${kind})
  if(NOT rapt_mpi)
    rapt_skipped_test(install_${name} "MPI was not found (scripts/bootstrap --mpi)")
  elseif(NOT MPIEXEC_EXECUTABLE)
    rapt_skipped_test(install_${name} "mpirun was not found")
  else()
    rapt_install_test(${name} mpi -DKIND=${kind} -DNAME=${name} -DMPIEXEC=${MPIEXEC_EXECUTABLE}
      -DCXX=${CMAKE_CXX_COMPILER} -DCC=${CMAKE_C_COMPILER})
    set_tests_properties(install_${name} PROPERTIES FIXTURES_REQUIRED installed_${kind} PROCESSORS 2
                                                    SKIP_REGULAR_EXPRESSION "skipped: ")
  endif()
endforeach()

# What the shared libraries need and export.
if(CMAKE_READELF AND CMAKE_NM)
  rapt_install_test(needed_libraries needed_libraries -DKIND=shared -DREADELF=${CMAKE_READELF})
  rapt_install_test(exports exports -DKIND=shared -DNM=${CMAKE_NM} -DABI=${rapt_abi_version})
  set_tests_properties(install_needed_libraries install_exports PROPERTIES FIXTURES_REQUIRED installed_shared)
endif()
rapt_install_test(macros macros -DKIND=static -DCXX=${CMAKE_CXX_COMPILER} -DCC=${CMAKE_C_COMPILER})
set_tests_properties(install_macros PROPERTIES FIXTURES_REQUIRED installed_static)

# Within another project: rapt::attend alone, for one SIMD target.
list(GET rapt_known_targets 0 oldest_target)
rapt_install_test(subproject subproject -DCXX=${CMAKE_CXX_COMPILER} -DCC=${CMAKE_C_COMPILER} -DTARGET=${oldest_target}
  -DLAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER})
set_tests_properties(install_subproject PROPERTIES PROCESSORS 2 TIMEOUT 1200 LABELS slow)

# Example projects that build against an installed Rapt and bring their own ctest entries.
function(rapt_project_test name folder)
  add_test(NAME ${name}
    COMMAND "${CMAKE_CTEST_COMMAND}" --build-and-test "${folder}" "${rapt_install_work}/${name}"
            --build-generator "${CMAKE_GENERATOR}"
            --build-options "-DCMAKE_PREFIX_PATH=${rapt_install_work}/${rapt_kind}" "-DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}"
                            "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}"
            --test-command "${CMAKE_CTEST_COMMAND}" --output-on-failure --no-tests=error)
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS install FIXTURES_REQUIRED installed_${rapt_kind})
endfunction()
file(GLOB example_projects CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*/CMakeLists.txt")
foreach(example IN LISTS example_projects)
  cmake_path(GET example PARENT_PATH folder)
  cmake_path(GET folder FILENAME name)
  if(name STREQUAL "cuda_mechanism" AND NOT RAPT_NVCC)
    rapt_skipped_test(example_${name} "nvcc was not found")
    continue()
  endif()
  rapt_project_test(example_${name} "${folder}")
endforeach()
if(RAPT_NVCC)
  # The kernels of one mechanism take a core minutes.
  set_tests_properties(example_cuda_mechanism PROPERTIES TIMEOUT 1500 ENVIRONMENT "CUDACXX=${RAPT_NVCC};CUDAHOSTCXX=${CMAKE_CXX_COMPILER}")
endif()
# The code in README.md and docs/.
rapt_project_test(docs_code "${PROJECT_SOURCE_DIR}/tests/docs")
