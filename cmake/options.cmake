set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# The libraries export what RAPT_API marks and nothing else.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(RAPT_CCACHE ccache)
  mark_as_advanced(RAPT_CCACHE)
  if(RAPT_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${RAPT_CCACHE}")
    set(CMAKE_C_COMPILER_LAUNCHER "${RAPT_CCACHE}")
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${RAPT_CCACHE}")
  endif()
endif()

# What every target of Rapt is compiled with. Kernels ask for fused multiply-adds themselves: with contraction off the
# same source gives the same bits at every optimisation level.
add_library(rapt_options INTERFACE)
target_compile_features(rapt_options INTERFACE cxx_std_20)
target_compile_options(rapt_options INTERFACE -ffp-contract=off -Wall -Wextra -Wshadow)
# GCC 12 wrongly warns about overlapping memory in string concatenation.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(rapt_options INTERFACE -Wno-restrict)
endif()
if(RAPT_WERROR)
  target_compile_options(rapt_options INTERFACE -Werror)
endif()
# For code without long loops, where compile time matters: GCC takes half of -O3's time at -Og, less than at -O0.
function(rapt_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
endfunction()
# Several sources in one compilation: most of a small file's time goes into the standard library's headers, which are then
# read once. rapt_batch(TARGET SIZE [APART source…]): sources that share names with their neighbours stay apart.
function(rapt_batch target size)
  cmake_parse_arguments(batch "" "" "APART" ${ARGN})
  if(NOT RAPT_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  set_source_files_properties(${batch_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # GCC takes an included source's unnamed namespace for a header's mistake.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
if(RAPT_SANITIZE)
  set(rapt_sanitize_flags -fsanitize=${RAPT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(rapt_options INTERFACE ${rapt_sanitize_flags})
  target_link_options(rapt_options INTERFACE ${rapt_sanitize_flags})
endif()
