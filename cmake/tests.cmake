# tests/<folder>/**/*.cc become the executable rapt_<folder>_test; tests/support and tests/oracle are shared by all.
# Labels, for ctest -L: `slow` for test names with Slow in them, `threads` for others with Threads in theirs, `plain` for
# all the rest, `pages` for those in a browser. One label each.

# A test that cannot run here is listed with the reason, so that it is not taken for passed.
function(rapt_skipped_test name reason)
  add_test(NAME ${name} COMMAND "${CMAKE_COMMAND}" -E echo "skipped: ${reason}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: ")
endfunction()

file(GLOB_RECURSE rapt_test_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*.cc")
list(FILTER rapt_test_sources EXCLUDE REGEX "/tests/(lanes/simd|install|contract|cuda|isa|registry|fuzz|docs)/")
if(NOT rapt_subwords)
  list(FILTER rapt_test_sources EXCLUDE REGEX "/tests/subwords/")
  rapt_skipped_test(subwords "SentencePiece was not found")
endif()
# Replaces the program's allocator, so only tests that count allocations link it.
set(rapt_counting_allocator "${PROJECT_SOURCE_DIR}/tests/support/allocations.cc")
list(REMOVE_ITEM rapt_test_sources "${rapt_counting_allocator}")
set(rapt_test_support_sources ${rapt_test_sources})
list(FILTER rapt_test_support_sources INCLUDE REGEX "/tests/(support|oracle)/")
list(FILTER rapt_test_support_sources EXCLUDE REGEX "_test\\.cc$")
if(rapt_test_support_sources)
  list(REMOVE_ITEM rapt_test_sources ${rapt_test_support_sources})
endif()

# Suites whose tests have a process each: they fork, end processes, lend threads, measure memory or count allocations.
set(rapt_alone_attend "Processes|Processors|DeathTest|Fork|Memory|OpenMp|Plan")
set(rapt_alone_cli ".")
set(rapt_alone_distributed ".")
set(rapt_alone_explorer ".")

# An entry of CTest for each suite: a process for each of 6,000 tests would cost a minute of a processor.
function(rapt_discover target folder)
  set(alone "^$")
  if(DEFINED rapt_alone_${folder})
    set(alone "${rapt_alone_${folder}}")
  endif()
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/suites/${target}.cmake" CONTENT
    "include([==[${PROJECT_SOURCE_DIR}/cmake/discover_suites.cmake]==])
rapt_add_suites([==[$<TARGET_FILE:${target}>]==] ${folder} [==[${PROJECT_SOURCE_DIR}]==] [==[${alone}]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${PROJECT_BINARY_DIR}/suites/${target}.cmake")
endfunction()

if(rapt_test_sources)
  find_package(GTest REQUIRED)

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
  target_link_libraries(rapt_test_support ${scope} rapt_train_static rapt_private GTest::gtest)

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

  # Folders whose tests are compiled together, so many at a time, and the files in them whose names others use too.
  set(rapt_batches_of_6 cli layers models pictures reproduce tasks training)
  set(rapt_batches_of_8 attend distributed explorer formulas tensor)
  set(rapt_apart_attend compare_test.cc decoding_test.cc empty_test.cc errors_test.cc forward_test.cc gradient_check_test.cc
    grid_passes_test.cc hidden_test.cc linear_time_test.cc memory_limits_test.cc normalizers_test.cc outputs_test.cc plan_test.cc
    reference_test.cc)
  set(rapt_apart_explorer server_test.cc)
  set(rapt_apart_formulas device_test.cc plan_test.cc precision_test.cc random_test.cc tables_test.cc visible_test.cc)
  set(rapt_apart_models padding_test.cc)
  set(rapt_apart_pictures charts_test.cc heatmap_test.cc image_sheet_test.cc terminal_test.cc)
  set(rapt_apart_tensor grid_test.cc image_ops_test.cc losses_test.cc npy_fuzz_test.cc)

  # The test programs of which the thread sanitizer runs a part.
  add_custom_target(rapt_threads_tests)

  foreach(folder IN LISTS folders)
    set(target "rapt_${folder}_test")
    add_executable(${target} ${sources_${folder}})
    foreach(source IN LISTS sources_${folder})
      file(STRINGS "${source}" about_threads REGEX "(TEST|INSTANTIATE)[A-Z_]*\\(.*Threads" LIMIT_COUNT 1)
      if(about_threads)
        add_dependencies(rapt_threads_tests ${target})
        break()
      endif()
    endforeach()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
    foreach(size IN ITEMS 6 8)
      if(folder IN_LIST rapt_batches_of_${size})
        list(TRANSFORM rapt_apart_${folder} PREPEND "${PROJECT_SOURCE_DIR}/tests/${folder}/" OUTPUT_VARIABLE apart)
        rapt_batch(${target} ${size} APART ${apart})
      endif()
    endforeach()
    target_link_libraries(${target} PRIVATE rapt_test_support GTest::gtest_main)
    if(folder MATCHES "^(attend|tensor)$")
      target_sources(${target} PRIVATE "${rapt_counting_allocator}")
    endif()
    if(folder STREQUAL "pictures")
      # The drawings, and the verb that draws them; PNG files are read back with a library other than the one that wrote
      # them.
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
    if(folder STREQUAL "distributed")
      target_link_libraries(${target} PRIVATE rapt_mpi_session)
      if(rapt_nccl)
        target_link_libraries(${target} PRIVATE rapt_nccl_static)
        target_compile_definitions(${target} PRIVATE RAPT_HAS_NCCL)
      endif()
    endif()
    if(folder STREQUAL "subwords")
      target_link_libraries(${target} PRIVATE rapt_subwords_linked)
    endif()
    if(folder STREQUAL "explorer")
      include(explorer)
      target_link_libraries(${target} PRIVATE rapt_explorer ZLIB::ZLIB ${rapt_httplib} Threads::Threads)
    endif()
    if(folder STREQUAL "cli" AND TARGET rapt_cli)
      target_link_libraries(${target} PRIVATE rapt_cli_lib)
      target_compile_definitions(${target} PRIVATE RAPT_CLI="$<TARGET_FILE:rapt_cli>")
      set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/cli/vocabulary_test.cc" PROPERTIES
        COMPILE_DEFINITIONS RAPT_HAS_SUBWORDS=$<BOOL:${rapt_subwords}>)
      add_dependencies(${target} rapt_cli)
    endif()
    if(folder STREQUAL "lanes")
      foreach(simd IN LISTS RAPT_TARGETS)
        file(GLOB lanes_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/lanes/simd/*.cc")
        add_library(rapt_lanes_${simd} OBJECT ${lanes_sources})
        target_compile_definitions(rapt_lanes_${simd} PRIVATE HWY_COMPILE_ONLY_STATIC RAPT_TARGET=${simd})
        target_compile_options(rapt_lanes_${simd} PRIVATE ${rapt_flags_${simd}})
        target_include_directories(rapt_lanes_${simd} PRIVATE ${rapt_include_dirs} "${PROJECT_SOURCE_DIR}/tests")
        target_link_libraries(rapt_lanes_${simd} PRIVATE rapt_private hwy::hwy)
        target_sources(${target} PRIVATE $<TARGET_OBJECTS:rapt_lanes_${simd}>)
      endforeach()
    endif()
    rapt_discover(${target} ${folder})
  endforeach()
endif()

add_test(NAME registry_errors COMMAND "${CMAKE_COMMAND}" -DCMAKE_DIR=${PROJECT_SOURCE_DIR}/cmake
  -DWORK_DIR=${PROJECT_BINARY_DIR}/registry_test -P "${PROJECT_SOURCE_DIR}/tests/registry/run.cmake")

# tests/scripts/NAME_test.sh is given scripts/NAME, cmake/NAME.cmake or the Makefile, and a folder to work in.
file(GLOB script_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/scripts/*_test.sh")
foreach(test IN LISTS script_tests)
  cmake_path(GET test STEM stem)
  string(REGEX REPLACE "_test$" "" name "${stem}")
  set(script "${PROJECT_SOURCE_DIR}/scripts/${name}")
  if(name STREQUAL "makefile")
    set(script "${PROJECT_SOURCE_DIR}/Makefile")
  elseif(EXISTS "${PROJECT_SOURCE_DIR}/cmake/${name}.cmake")
    set(script "${PROJECT_SOURCE_DIR}/cmake/${name}.cmake")
  endif()
  add_test(NAME scripts/${name} COMMAND "${test}" "${script}" "${PROJECT_BINARY_DIR}/script_tests/${name}")
  set_tests_properties(scripts/${name} PROPERTIES TIMEOUT 120)
endforeach()

# Mechanisms that break the contract, each refused with its sentence, and unusual ones that keep it.
file(GLOB contract_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/contract/*/*.cc")
foreach(source IN LISTS contract_sources)
  cmake_path(GET source STEM stem)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET folder FILENAME folder)
  add_test(NAME contract/${folder}/${stem} COMMAND "${CMAKE_COMMAND}" "-DCXX=${CMAKE_CXX_COMPILER}" "-DSOURCE=${source}"
    "-DINCLUDES=${rapt_include_dirs};${PROJECT_SOURCE_DIR}/src" -P "${PROJECT_SOURCE_DIR}/tests/contract/run.cmake")
  set_tests_properties(contract/${folder}/${stem} PROPERTIES TIMEOUT 120 LABELS contract)
endforeach()

add_test(NAME abi_namespace COMMAND "${PROJECT_SOURCE_DIR}/tests/install/check_namespace.sh" "${PROJECT_SOURCE_DIR}"
  ${rapt_abi_version})

# Every public header compiles alone.
file(GLOB rapt_public_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/rapt/*.h")
if(NOT rapt_mpi)
  list(FILTER rapt_public_headers EXCLUDE REGEX "/mpi\\.h$")
endif()
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
if(rapt_mpi)
  target_link_libraries(rapt_headers_alone PRIVATE MPI::MPI_CXX)
endif()
target_compile_options(rapt_headers_alone PRIVATE -Wall -Wextra -Werror)
add_test(NAME headers_compile_alone
  COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target rapt_headers_alone)
set_tests_properties(headers_compile_alone PROPERTIES TIMEOUT 600 RESOURCE_LOCK build_tree)

# A function that a target shares with other objects under one name could reach an older processor. At -O0 and -O1
# small functions are not inlined, so only a release build can tell.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT RAPT_SANITIZE AND CMAKE_NM)
  foreach(target IN LISTS RAPT_TARGETS)
    add_test(NAME isa_symbols_${target}
      COMMAND "${PROJECT_SOURCE_DIR}/tests/isa/check_symbols.sh" "${CMAKE_NM}" ${target}
              $<TARGET_OBJECTS:rapt_attend_${target}> $<TARGET_OBJECTS:rapt_train_${target}>
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
  # The kernels of three mechanisms: without a score, with a table, with pairs of its own.
  configure_file("${PROJECT_SOURCE_DIR}/src/backends/cuda/plain.cu" "${rapt_generated}/cuda_checked/plain.cu" COPYONLY)
  foreach(name IN ITEMS t5 additive)
    configure_file("${rapt_generated}/cuda/${name}.cu" "${rapt_generated}/cuda_checked/${name}.cu" COPYONLY)
  endforeach()
  add_test(NAME cuda_kernels
    COMMAND "${PROJECT_SOURCE_DIR}/tests/cuda/check_kernels.sh" "${rapt_generated}/cuda_checked"
            "${RAPT_NVCC}" -gencode=arch=compute_90a,code=sm_90a -std=c++20 --expt-relaxed-constexpr -O3
            -ccbin "${CMAKE_CXX_COMPILER}" -I "${PROJECT_SOURCE_DIR}/include" -I "${rapt_generated}/include"
            -I "${PROJECT_SOURCE_DIR}/src" -I "${rapt_generated}/private")
  set_tests_properties(cuda_kernels PROPERTIES TIMEOUT 1500)
elseif(NOT RAPT_SANITIZE)
  rapt_skipped_test(cuda_hooks "nvcc was not found")
  rapt_skipped_test(cuda_kernels "nvcc was not found")
endif()

if(NOT rapt_cuda AND NOT RAPT_SANITIZE AND TARGET rapt_attend_test AND TARGET rapt_distributed_test)
  include(cuda_machine)
endif()

# The example as part of this build, for `make test-cuda`; example_cuda_mechanism builds it against the installed
# package.
if(rapt_cuda)
  set(example "${PROJECT_SOURCE_DIR}/examples/cuda_mechanism")
  add_executable(rapt_cuda_mechanism EXCLUDE_FROM_ALL "${example}/main.cc" "${example}/kernels.cu")
  target_link_libraries(rapt_cuda_mechanism PRIVATE rapt::cuda)
endif()

if(NOT RAPT_SANITIZE)
  # The kernels of formulas, compiled by the NVRTC that is found at run time.
  add_executable(rapt_formula_kernels "${PROJECT_SOURCE_DIR}/tests/cuda/formula_kernels.cc")
  target_link_libraries(rapt_formula_kernels PRIVATE rapt_test_support GTest::gtest_main ${CMAKE_DL_LIBS})
  if(NOT rapt_cuda)
    target_sources(rapt_formula_kernels PRIVATE $<TARGET_OBJECTS:rapt_cuda_runtime>)
  endif()
  add_test(NAME formula_kernels COMMAND rapt_formula_kernels)
  set_tests_properties(formula_kernels PROPERTIES TIMEOUT 1500 SKIP_REGULAR_EXPRESSION "Skipped")
  add_test(NAME formula_kernels_without_nvrtc COMMAND rapt_formula_kernels --gtest_filter=FormulaKernels.AreKept)
  set_tests_properties(
    formula_kernels_without_nvrtc
    PROPERTIES ENVIRONMENT "RAPT_NVRTC=/there/is/none" PASS_REGULAR_EXPRESSION
               "formulas are compiled by NVRTC on a device: expected libnvrtc.so of CUDA 12 or later, found none")
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
set(page_timeout 300)
if(RAPT_SANITIZE)
  set(page_timeout 1200)
endif()
if(TARGET rapt_cli)
  file(GLOB page_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/pages/*_test.py")
  foreach(script IN LISTS page_tests)
    cmake_path(GET script STEM stem)
    if(NOT RAPT_PYTHON)
      rapt_skipped_test(pages/${stem} "python3 was not found")
      continue()
    endif()
    add_test(NAME pages/${stem} COMMAND "${RAPT_PYTHON}" -B "${script}" $<TARGET_FILE:rapt_cli>)
    set_tests_properties(pages/${stem} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${page_timeout} LABELS pages)
    if(stem STREQUAL "report_paper_test" AND page_timeout LESS 900)
      # The whole quick report: a minute on two idle cores.
      set_tests_properties(pages/${stem} PROPERTIES TIMEOUT 900)
    endif()
  endforeach()
endif()

# The tables of README.md follow from docs/speed.md and from what the tool says.
if(TARGET rapt_cli AND RAPT_PYTHON)
  add_test(NAME readme_tables COMMAND "${RAPT_PYTHON}" -B "${PROJECT_SOURCE_DIR}/scripts/readme_tables" $<TARGET_FILE:rapt_cli> --check)
endif()

# What docs/scale.md says of many machines follows from the costs of a call.
if(RAPT_PYTHON)
  add_test(NAME scale_model COMMAND "${RAPT_PYTHON}" -B "${PROJECT_SOURCE_DIR}/benchmarks/scale_model.py" --check
    "${PROJECT_SOURCE_DIR}/docs/scale.md")
endif()

# One file and one line, in a copy of the library: the mechanism of examples/new_mechanism then has everything.
if(TARGET rapt_cli AND NOT RAPT_SANITIZE AND EXISTS "${PROJECT_SOURCE_DIR}/tests/new_mechanism/run.cmake")
  list(GET rapt_known_targets 0 oldest_target)
  add_test(NAME new_mechanism COMMAND "${CMAKE_COMMAND}" -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DBUILD_DIR=${PROJECT_BINARY_DIR}
    -DWORK_DIR=${PROJECT_BINARY_DIR}/new_mechanism -DCXX=${CMAKE_CXX_COMPILER} -DTARGET=${oldest_target}
    -P "${PROJECT_SOURCE_DIR}/tests/new_mechanism/run.cmake")
  set_tests_properties(new_mechanism PROPERTIES TIMEOUT 1200 LABELS slow PROCESSORS 2)
endif()

include(python_tests)
include(package_tests)
include(fuzz)
