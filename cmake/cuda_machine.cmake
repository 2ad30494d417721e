# The CUDA backend on the CPU, for tests where there is no GPU: its kernels are rewritten as ordinary C++ for the machine of
# tests/cuda/machine, and the tests of attention run on them as on a device. Needs CUDA's headers, nothing else of it.
find_path(RAPT_CUDA_HEADERS cuda_runtime.h HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
mark_as_advanced(RAPT_CUDA_HEADERS)
include(CheckCXXSourceRuns)
check_cxx_source_runs("int main() { return __builtin_cpu_supports(\"fma\") ? 0 : 1; }" RAPT_HAS_FMA)
if(NOT RAPT_CUDA_HEADERS OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" OR NOT RAPT_HAS_FMA)
  rapt_skipped_test(cuda_machine "expected CUDA's headers and an x86-64 processor with FMA")
  return()
endif()

# hopper/sm90.h, and what else names instructions, is the machine's.
set(machine "${PROJECT_SOURCE_DIR}/tests/cuda/machine")
set(rewritten "${rapt_generated}/machine")
set(rewrite "${PROJECT_SOURCE_DIR}/cmake/machine_source.cmake")
set(own hopper/sm90.h hopper/mma.h hopper/wgmma.h)
file(GLOB_RECURSE sources RELATIVE "${PROJECT_SOURCE_DIR}/src" CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/backends/cuda/*.cu"
  "${PROJECT_SOURCE_DIR}/src/backends/cuda/*.cuh" "${PROJECT_SOURCE_DIR}/src/backends/cuda/*.h")
list(FILTER sources EXCLUDE REGEX "/runtime/std/")
list(TRANSFORM own PREPEND "backends/cuda/" OUTPUT_VARIABLE replaced)
list(REMOVE_ITEM sources ${replaced})
set(machine_files "")
set(machine_sources "")
foreach(source IN LISTS sources)
  add_custom_command(OUTPUT "${rewritten}/${source}"
    COMMAND "${CMAKE_COMMAND}" "-DFROM=${PROJECT_SOURCE_DIR}/src/${source}" "-DTO=${rewritten}/${source}" -P "${rewrite}"
    DEPENDS "${PROJECT_SOURCE_DIR}/src/${source}" "${rewrite}" COMMENT "" VERBATIM)
  list(APPEND machine_files "${rewritten}/${source}")
  if(source MATCHES "\\.cu$")
    list(APPEND machine_sources "${rewritten}/${source}")
  endif()
endforeach()
foreach(header IN LISTS own)
  file(CONFIGURE OUTPUT "${rewritten}/backends/cuda/${header}" CONTENT "#include \"cuda/machine/sm90.h\"\n" @ONLY)
endforeach()
add_custom_target(rapt_machine_sources DEPENDS ${machine_files})

list(APPEND machine_sources ${rapt_cuda_programs} "${rapt_generated}/cuda_registry.cu")
set_source_files_properties(${machine_sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
file(GLOB machine_own CONFIGURE_DEPENDS "${machine}/*.cc")
add_library(rapt_cuda_machine OBJECT EXCLUDE_FROM_ALL ${machine_sources} ${machine_own})
add_dependencies(rapt_cuda_machine rapt_machine_sources)
target_include_directories(rapt_cuda_machine BEFORE PRIVATE "${rewritten}" "${PROJECT_SOURCE_DIR}/tests")
target_include_directories(rapt_cuda_machine SYSTEM PRIVATE "${RAPT_CUDA_HEADERS}")
target_link_libraries(rapt_cuda_machine PRIVATE rapt_private)
# Kernels say much that only nvcc understands.
target_compile_options(rapt_cuda_machine PRIVATE -O1 -mfma -w "SHELL:-include \"${machine}/machine.h\"")

# The tests of a folder, with the backend in place of the one that refuses.
function(rapt_machine_executable folder)
  set(target rapt_${folder}_machine_test)
  add_executable(${target} $<TARGET_OBJECTS:rapt_${folder}_test> $<TARGET_OBJECTS:rapt_cuda_machine>
    $<TARGET_OBJECTS:rapt_cuda_runtime>)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  get_target_property(libraries rapt_${folder}_test LINK_LIBRARIES)
  target_link_libraries(${target} PRIVATE ${libraries} ${CMAKE_DL_LIBS})
endfunction()
rapt_machine_executable(attend)
rapt_machine_executable(distributed)

# A part that takes a minute of a processor; all of it: RAPT_TEST_DEVICE=cuda build/release/rapt_attend_machine_test
function(rapt_machine_test name folder filter)
  add_test(NAME cuda_machine/${name} COMMAND rapt_${folder}_machine_test --gtest_filter=${filter})
  set_tests_properties(cuda_machine/${name} PROPERTIES ENVIRONMENT RAPT_TEST_DEVICE=cuda TIMEOUT 1500 COST 50
    FAIL_REGULAR_EXPRESSION "ran no tests|0 tests from 0 test suites ran")
endfunction()
rapt_machine_test(forward attend "All/Forward.*/transformer_xl_f32:All/Forward.*/additive_f16:All/Forward.*/t5_bf16")
rapt_machine_test(backward attend "All/Backward.Every*/learned_2d_f32:All/Backward.Every*/distance_bf16:All/Backward.Every*/additive_f32:All/Backward.ScaleGroups*/*_f32")
rapt_machine_test(normalizers attend "All/Normalizers.EveryMask/gaussian_*:All/Normalizers.EveryMask/bilinear_sink")
rapt_machine_test(tensor_cores attend "All/Aligned.EveryHeadDim/*:All/Aligned.PositionsSink*/t5_f16:All/Aligned.*NotFinite/alibi_bf16")
rapt_machine_test(tensor_cores_backward attend
  "All/Aligned.GradientsOfEveryHeadDim/scaled_dot_bf16:All/Aligned.GradientsOfEveryHeadDim/additive_f16:All/Aligned.GradientsOfEveryHeadDim/t5_f16:All/Aligned.GradientsWith*/quadratic_bf16")
rapt_machine_test(dense attend
  "All/Aligned.*Bias*/scaled_dot_bf16:All/Aligned.*Sigmoid/alibi_f16:All/Aligned.*HardAttention/t5_bf16:All/Aligned.*ValueSets/dot_f16:All/Aligned.OutputsIn*/scaled_dot_f16:All/Aligned.Densely*/dot_bf16")
rapt_machine_test(few_queries attend "All/Aligned.FewQueries*/scaled_dot_bf16:All/Aligned.FewQueries*/alibi_f16")
rapt_machine_test(processes distributed
  "DistributedSteps.OddSizes:DistributedSteps.ArraysWithoutElements:DistributedSteps.LateMessages:*DistributedStepsMechanisms.*/t5")
