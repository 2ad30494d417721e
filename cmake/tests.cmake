# tests/<folder>/**/*.cc become the executable rapt_<folder>_test; tests/support and tests/oracle are shared by all.
# Labels, for ctest -L: `slow` for test names with Slow in them, `sanitize` for all others, `sanitize-threads` for
# those of them with Threads in their names. One label each: gtest_discover_tests keeps no lists.
file(GLOB_RECURSE rapt_test_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*.cc")
list(FILTER rapt_test_sources EXCLUDE REGEX "/tests/(install|contract|cuda|isa|registry|fuzz|docs)/")
set(rapt_test_support_sources ${rapt_test_sources})
list(FILTER rapt_test_support_sources INCLUDE REGEX "/tests/(support|oracle)/")
list(FILTER rapt_test_support_sources EXCLUDE REGEX "_test\\.cc$")
if(rapt_test_support_sources)
  list(REMOVE_ITEM rapt_test_sources ${rapt_test_support_sources})
endif()

function(rapt_discover target folder label filter)
  gtest_discover_tests(${target}
    TEST_PREFIX "${folder}/"
    TEST_FILTER "${filter}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 120
    PROPERTIES TIMEOUT 600 LABELS ${label})
endfunction()

if(rapt_test_sources)
  find_package(GTest REQUIRED)
  include(GoogleTest)

  # An interface library when there is nothing to compile yet.
  if(rapt_test_support_sources)
    add_library(rapt_test_support STATIC ${rapt_test_support_sources})
    set(scope PUBLIC)
  else()
    add_library(rapt_test_support INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(rapt_test_support ${scope} "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(rapt_test_support ${scope} RAPT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(rapt_test_support ${scope} rapt::rapt rapt_private GTest::gtest)

  set(folders "")
  foreach(source IN LISTS rapt_test_sources)
    file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}/tests" "${source}")
    if(path MATCHES "^([^/]+)/")
      set(folder "${CMAKE_MATCH_1}")
    else()
      set(folder "general")
    endif()
    list(APPEND sources_${folder} "${source}")
    if(path MATCHES "_test\\.cc$")
      list(APPEND folders "${folder}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)

  foreach(folder IN LISTS folders)
    set(target "rapt_${folder}_test")
    add_executable(${target} ${sources_${folder}})
    rapt_compile_quickly(${target})
    target_link_libraries(${target} PRIVATE rapt_test_support GTest::gtest_main)
    if(folder STREQUAL "pictures")
      # The drawings, and the verb that draws them; PNG files are read back with another library than wrote them.
      include(pictures)
      find_package(PNG REQUIRED)
      target_link_libraries(${target} PRIVATE rapt_pictures PkgConfig::rsvg PNG::PNG)
      if(TARGET rapt_cli_lib)
        target_link_libraries(${target} PRIVATE rapt_cli_lib)
        target_compile_definitions(${target} PRIVATE RAPT_HAS_CLI)
      endif()
    endif()
    if(folder STREQUAL "reproduce")
      # The report is read by the parser of the drawings' tests, which knows nothing of HTML.
      include(reproduce)
      target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/pictures/svg_reader.cc")
      target_link_libraries(${target} PRIVATE rapt_reproduce PkgConfig::rsvg)
    endif()
    if(folder STREQUAL "explorer")
      include(explorer)
      target_link_libraries(${target} PRIVATE rapt_explorer ZLIB::ZLIB ${rapt_httplib} Threads::Threads)
    endif()
    if(folder STREQUAL "cli" AND TARGET rapt_cli)
      target_link_libraries(${target} PRIVATE rapt_cli_lib)
      target_compile_definitions(${target} PRIVATE RAPT_CLI="$<TARGET_FILE:rapt_cli>")
      add_dependencies(${target} rapt_cli)
    endif()
    rapt_discover(${target} ${folder} sanitize-threads "*Threads*-*Slow*")
    rapt_discover(${target} ${folder} sanitize "-*Threads*:*Slow*")
    rapt_discover(${target} ${folder} slow "*Slow*")
  endforeach()
endif()

add_test(NAME registry_errors COMMAND "${CMAKE_COMMAND}" -DCMAKE_DIR=${PROJECT_SOURCE_DIR}/cmake
  -DWORK_DIR=${PROJECT_BINARY_DIR}/registry_test -P "${PROJECT_SOURCE_DIR}/tests/registry/run.cmake")

# Mechanisms that break the contract, each refused with its sentence, and unusual ones that keep it.
file(GLOB contract_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/contract/*/*.cc")
foreach(source IN LISTS contract_sources)
  cmake_path(GET source STEM stem)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET folder FILENAME folder)
  add_test(NAME contract/${folder}/${stem} COMMAND "${CMAKE_COMMAND}" "-DCXX=${CMAKE_CXX_COMPILER}" "-DSOURCE=${source}"
    "-DINCLUDES=${rapt_include_dirs}" -P "${PROJECT_SOURCE_DIR}/tests/contract/run.cmake")
  set_tests_properties(contract/${folder}/${stem} PROPERTIES TIMEOUT 120 LABELS contract)
endforeach()

# Every public header compiles alone.
file(GLOB rapt_public_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/rapt/*.h")
set(alone_sources "")
foreach(header IN LISTS rapt_public_headers ITEMS "${rapt_generated}/include/rapt/mechanisms.h")
  cmake_path(GET header FILENAME file)
  cmake_path(GET header STEM stem)
  set(content "#include \"rapt/${file}\"\n#include \"rapt/${file}\"\n")
  file(CONFIGURE OUTPUT "${rapt_generated}/headers/${stem}.cc" CONTENT "${content}" @ONLY)
  list(APPEND alone_sources "${rapt_generated}/headers/${stem}.cc")
  if(file STREQUAL "c.h")
    file(CONFIGURE OUTPUT "${rapt_generated}/headers/c99.c" CONTENT "${content}" @ONLY)
    list(APPEND alone_sources "${rapt_generated}/headers/c99.c")
  endif()
endforeach()
add_library(rapt_headers_alone OBJECT EXCLUDE_FROM_ALL ${alone_sources})
set_target_properties(rapt_headers_alone PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_include_directories(rapt_headers_alone PRIVATE ${rapt_include_dirs})
target_compile_features(rapt_headers_alone PRIVATE cxx_std_20)
target_compile_options(rapt_headers_alone PRIVATE -Wall -Wextra -Werror)
add_test(NAME headers_compile_alone
  COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target rapt_headers_alone)
set_tests_properties(headers_compile_alone PROPERTIES TIMEOUT 600 RESOURCE_LOCK build_tree)

# A function that a target shares with other objects under one name could reach an older processor. At -O0 and -O1
# small functions are not inlined, so only a release build can tell.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT RAPT_SANITIZE AND CMAKE_NM)
  foreach(target IN LISTS RAPT_TARGETS)
    add_test(NAME isa_symbols_${target}
      COMMAND "${PROJECT_SOURCE_DIR}/tests/isa/check_symbols.sh" "${CMAKE_NM}" ${target} $<TARGET_OBJECTS:rapt_${target}>
      COMMAND_EXPAND_LISTS)
    set_tests_properties(isa_symbols_${target} PROPERTIES TIMEOUT 120)
  endforeach()
endif()

# Hooks are plain templates: the same files must compile for a GPU.
find_program(RAPT_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
mark_as_advanced(RAPT_NVCC)
if(RAPT_NVCC AND NOT RAPT_SANITIZE)
  set(cuda_includes "")
  set(cuda_instances "")
  foreach(name IN LISTS rapt_mechanisms)
    rapt_struct_name("${name}" struct)
    string(APPEND cuda_includes "#include \"mechanisms/${name}.h\"\n")
    string(APPEND cuda_instances "template __global__ void rapt::run_hooks<rapt::mechanisms::${struct}>(float*, const float*);\n")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/tests/cuda/hooks.cu.in" "${rapt_generated}/hooks.cu" @ONLY)
  add_test(NAME cuda_hooks
    COMMAND "${RAPT_NVCC}" -std=c++20 --expt-relaxed-constexpr -ccbin "${CMAKE_CXX_COMPILER}"
            -I "${PROJECT_SOURCE_DIR}/include" -I "${PROJECT_SOURCE_DIR}/src"
            -c "${rapt_generated}/hooks.cu" -o "${PROJECT_BINARY_DIR}/hooks.o")
  set_tests_properties(cuda_hooks PROPERTIES TIMEOUT 600)
endif()

# The table of mechanisms in the documentation: the build writes what the registry says, the test compares.
if(TARGET rapt_cli)
  set(mechanism_table "${CMAKE_COMMAND}" -DRAPT=$<TARGET_FILE:rapt_cli> -DDOCUMENT=${PROJECT_SOURCE_DIR}/docs/mechanisms.md)
  set(mechanism_table_script "${PROJECT_SOURCE_DIR}/cmake/mechanism_table.cmake")
  add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/mechanism_table.stamp"
    COMMAND ${mechanism_table} -P "${mechanism_table_script}"
    COMMAND "${CMAKE_COMMAND}" -E touch "${PROJECT_BINARY_DIR}/mechanism_table.stamp"
    DEPENDS rapt_cli "${PROJECT_SOURCE_DIR}/docs/mechanisms.md" "${mechanism_table_script}" VERBATIM)
  add_custom_target(rapt_mechanism_table ALL DEPENDS "${PROJECT_BINARY_DIR}/mechanism_table.stamp")
  add_test(NAME docs_mechanism_table COMMAND ${mechanism_table} -DCHECK=ON -P "${mechanism_table_script}")
endif()

# Pages in headless Chromium; skipped with a message where there is none. Debian's Selenium is for Debian's Python.
find_program(RAPT_PYTHON python3 HINTS /usr/bin NO_CMAKE_ENVIRONMENT_PATH NO_SYSTEM_ENVIRONMENT_PATH)
mark_as_advanced(RAPT_PYTHON)
if(TARGET rapt_cli AND RAPT_PYTHON AND NOT RAPT_SANITIZE)
  file(GLOB page_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/pages/*_test.py")
  foreach(script IN LISTS page_tests)
    cmake_path(GET script STEM stem)
    add_test(NAME pages/${stem} COMMAND "${RAPT_PYTHON}" -B "${script}" $<TARGET_FILE:rapt_cli>)
    set_tests_properties(pages/${stem} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS pages)
  endforeach()
endif()

# One file and one line, in a copy of the library: the mechanism of examples/new_mechanism then has everything.
if(TARGET rapt_cli AND NOT RAPT_SANITIZE AND EXISTS "${PROJECT_SOURCE_DIR}/tests/new_mechanism/run.cmake")
  list(GET rapt_known_targets 0 oldest_target)
  add_test(NAME new_mechanism COMMAND "${CMAKE_COMMAND}" -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DBUILD_DIR=${PROJECT_BINARY_DIR}
    -DWORK_DIR=${PROJECT_BINARY_DIR}/new_mechanism -DCXX=${CMAKE_CXX_COMPILER} -DTARGET=${oldest_target}
    -P "${PROJECT_SOURCE_DIR}/tests/new_mechanism/run.cmake")
  set_tests_properties(new_mechanism PROPERTIES TIMEOUT 1200 LABELS slow PROCESSORS 2)
endif()

# The installed package, as a user's project sees it. A sanitized library cannot serve a plain program.
if(RAPT_INSTALL AND NOT RAPT_SANITIZE)
  set(prefix "${PROJECT_BINARY_DIR}/install_test/prefix")
  set(install_arguments
    -DBUILD_DIR=${PROJECT_BINARY_DIR} -DPREFIX=${prefix} -DSOURCE_DIR=${PROJECT_SOURCE_DIR}/tests/install
    -DWORK_DIR=${PROJECT_BINARY_DIR}/install_test -DCONFIG=${CMAKE_BUILD_TYPE}
    -DCXX=${CMAKE_CXX_COMPILER} -DCC=${CMAKE_C_COMPILER} -DLIBDIR=${CMAKE_INSTALL_LIBDIR})
  foreach(step IN ITEMS prefix find_package pkg_config)
    add_test(NAME install_${step} COMMAND "${CMAKE_COMMAND}" ${install_arguments} -DSTEP=${step}
      -P "${PROJECT_SOURCE_DIR}/tests/install/run.cmake")
    set_tests_properties(install_${step} PROPERTIES TIMEOUT 600 LABELS install)
  endforeach()
  set_tests_properties(install_prefix PROPERTIES FIXTURES_SETUP installed RESOURCE_LOCK build_tree)
  set_tests_properties(install_find_package install_pkg_config PROPERTIES FIXTURES_REQUIRED installed)

  # Example projects that build against an installed Rapt and bring their own ctest entries.
  function(rapt_project_test name folder)
    add_test(NAME ${name}
      COMMAND "${CMAKE_CTEST_COMMAND}" --build-and-test "${folder}" "${PROJECT_BINARY_DIR}/install_test/${name}"
              --build-generator "${CMAKE_GENERATOR}"
              --build-options "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}"
                              "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}"
              --test-command "${CMAKE_CTEST_COMMAND}" --output-on-failure --no-tests=error)
    set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS install FIXTURES_REQUIRED installed)
  endfunction()
  file(GLOB example_projects CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*/CMakeLists.txt")
  foreach(example IN LISTS example_projects)
    cmake_path(GET example PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    rapt_project_test(example_${name} "${folder}")
  endforeach()
  # The code in docs/.
  rapt_project_test(docs_code "${PROJECT_SOURCE_DIR}/tests/docs")
endif()
