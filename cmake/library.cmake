find_package(Threads REQUIRED)
find_package(hwy CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)

# Compile flags of each SIMD target, chosen so that Highway's static target is the one of that name.
set(rapt_flags_sse4 -march=x86-64-v2 -maes -mpclmul)
set(rapt_flags_avx2 -march=x86-64-v3 -maes -mpclmul)
set(rapt_flags_avx512 -march=x86-64-v4 -maes -mpclmul)
set(rapt_flags_portable "")

set(rapt_include_dirs "${PROJECT_SOURCE_DIR}/include" "${rapt_generated}/include")
set(rapt_private_include_dirs "${PROJECT_SOURCE_DIR}/src" "${rapt_generated}/private")

file(GLOB rapt_kernel_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/backends/cpu/simd/*.cc"
                                                "${PROJECT_SOURCE_DIR}/src/tensor/simd/*.cc")
file(GLOB_RECURSE rapt_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cc")
list(FILTER rapt_sources EXCLUDE REGEX "/src/(backends/cpu/x86/(dot|tiles)|.*/simd/|pictures/|solve/|reproduce/|explorer/)")

# Tests of private code need the same view of the tree as the library itself.
add_library(rapt_private INTERFACE)
target_include_directories(rapt_private INTERFACE ${rapt_private_include_dirs})
target_link_libraries(rapt_private INTERFACE rapt_options)

set(rapt_object_libraries "")
foreach(target IN LISTS RAPT_TARGETS)
  add_library(rapt_${target} OBJECT ${rapt_kernel_sources} ${rapt_program_sources})
  target_compile_definitions(rapt_${target} PRIVATE HWY_COMPILE_ONLY_STATIC RAPT_TARGET=${target})
  target_compile_options(rapt_${target} PRIVATE ${rapt_flags_${target}})
  target_include_directories(rapt_${target} PRIVATE ${rapt_include_dirs})
  target_link_libraries(rapt_${target} PRIVATE rapt_private hwy::hwy Threads::Threads)
  list(APPEND rapt_object_libraries $<TARGET_OBJECTS:rapt_${target}>)
endforeach()

# Instructions for bf16 that some processors of the newest target have, asked for when the program runs.
if("avx512" IN_LIST RAPT_TARGETS)
  set(rapt_flags_dot -mavx512bf16)
  set(rapt_flags_tiles -mavx512bf16 -mamx-tile -mamx-bf16)
  foreach(part dot tiles)
    add_library(rapt_bf16_${part} OBJECT "${PROJECT_SOURCE_DIR}/src/backends/cpu/x86/${part}.cc")
    target_compile_options(rapt_bf16_${part} PRIVATE ${rapt_flags_avx512} ${rapt_flags_${part}})
    target_link_libraries(rapt_bf16_${part} PRIVATE rapt_private)
    list(APPEND rapt_object_libraries $<TARGET_OBJECTS:rapt_bf16_${part}>)
  endforeach()
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/backends/cpu/x86/pairs.cc" PROPERTIES COMPILE_DEFINITIONS
                                                                                           RAPT_BF16_PAIRS)
endif()

add_library(rapt ${rapt_sources} ${rapt_registry_source} ${rapt_data_sources} ${rapt_object_libraries})
add_library(rapt::rapt ALIAS rapt)
target_compile_features(rapt PUBLIC cxx_std_20)
target_include_directories(rapt PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                       $<BUILD_INTERFACE:${rapt_generated}/include>
                                       $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(rapt PRIVATE $<BUILD_INTERFACE:rapt_private> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>
                           hwy::hwy Threads::Threads)
set_target_properties(rapt PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
