# rapt::attend: mechanisms, normalisers, the front, the backends, and C.
file(GLOB_RECURSE rapt_attend_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/mechanisms/*.cc"
  "${PROJECT_SOURCE_DIR}/src/normalizers/*.cc" "${PROJECT_SOURCE_DIR}/src/formulas/*.cc" "${PROJECT_SOURCE_DIR}/src/attend/*.cc"
  "${PROJECT_SOURCE_DIR}/src/backends/*.cc" "${PROJECT_SOURCE_DIR}/src/distributed/*.cc" "${PROJECT_SOURCE_DIR}/src/c/*.cc")
list(FILTER rapt_attend_sources EXCLUDE REGEX "/(simd/|backends/(mpi|nccl)/|cuda/runtime/|x86/(dot|tiles)\\.cc)")
if(rapt_cuda)
  list(FILTER rapt_attend_sources EXCLUDE REGEX "/backends/cuda/absent\\.cc$")
endif()
file(GLOB rapt_attend_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/backends/cpu/simd/*.cc")
# Every call passes through the front, where -O2 would cost a small one 5 %.
set(rapt_attend_light ${rapt_attend_sources})
list(FILTER rapt_attend_light INCLUDE REGEX "/src/(formulas|distributed)/")
list(REMOVE_ITEM rapt_attend_sources ${rapt_attend_light})
rapt_objects(attend SOURCES ${rapt_attend_sources} ${rapt_registry_source} LIGHT ${rapt_attend_light} LEVEL -O2
                    KERNELS ${rapt_attend_kernels} SMALL ${rapt_program_sources})

# dispatch.cc and formula_interpreters.cc name the targets: `make test` after `make run` changes these, and nothing else here.
file(GLOB apart "${PROJECT_SOURCE_DIR}/src/backends/cpu/dispatch.cc" "${PROJECT_SOURCE_DIR}/src/backends/cpu/formula_interpreters.cc"
  "${PROJECT_SOURCE_DIR}/src/c/*.cc" "${PROJECT_SOURCE_DIR}/src/backends/cuda/*.cc" "${PROJECT_SOURCE_DIR}/src/backends/mpi/*.cc"
  "${PROJECT_SOURCE_DIR}/src/backends/reference/backend.cc")
foreach(part IN ITEMS objects light)
  rapt_batch(rapt_attend_${part} 24 APART ${apart})
endforeach()

# bf16 instructions, which only some processors of the newest target have: chosen at run time.
if("avx512" IN_LIST RAPT_TARGETS)
  set(rapt_flags_dot -mavx512bf16)
  set(rapt_flags_tiles -mavx512bf16 -mamx-tile -mamx-bf16)
  foreach(part dot tiles)
    add_library(rapt_bf16_${part} OBJECT "${PROJECT_SOURCE_DIR}/src/backends/cpu/x86/${part}.cc")
    target_compile_options(rapt_bf16_${part} PRIVATE ${rapt_flags_avx512} ${rapt_flags_${part}})
    target_link_libraries(rapt_bf16_${part} PRIVATE rapt_private)
    list(APPEND rapt_attend_objects $<TARGET_OBJECTS:rapt_bf16_${part}>)
  endforeach()
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/backends/cpu/x86/bf16.cc" PROPERTIES COMPILE_DEFINITIONS
                                                                                           RAPT_BF16)
endif()

if(rapt_cuda)
  list(APPEND rapt_attend_objects $<TARGET_OBJECTS:rapt_cuda_objects> $<TARGET_OBJECTS:rapt_cuda_runtime>)
endif()

rapt_library(attend)

# rapt::cuda: rapt::attend with the headers of its kernels, for mechanisms of a program's own (rapt/cuda/mechanism.cuh).
foreach(kind IN ITEMS static shared)
  add_library(rapt_cuda_${kind} INTERFACE)
  set_target_properties(rapt_cuda_${kind} PROPERTIES EXPORT_NAME cuda)
  target_include_directories(rapt_cuda_${kind} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${rapt_generated}/private>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rapt/cuda>)
  # CMake 3.25 does not know that nvcc has C++20.
  target_compile_options(rapt_cuda_${kind} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>
                                                     $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  target_link_libraries(rapt_cuda_${kind} INTERFACE rapt_attend_${kind})
endforeach()
add_library(rapt::cuda ALIAS rapt_cuda_${rapt_kind})
if(rapt_cuda)
  foreach(kind IN ITEMS static shared)
    target_link_libraries(rapt_attend_${kind} PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
  endforeach()
endif()
