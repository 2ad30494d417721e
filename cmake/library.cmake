find_package(Threads REQUIRED)
find_package(hwy CONFIG REQUIRED)

# Compile flags of each SIMD target, chosen so that Highway's static target is the one of that name. What they ask of
# the processor is checked in src/backends/cpu/x86/processor.cc.
set(rapt_flags_sse4 -march=x86-64-v2 -maes -mpclmul)
set(rapt_flags_avx2 -march=x86-64-v3 -maes -mpclmul)
set(rapt_flags_avx512 -march=x86-64-v4 -maes -mpclmul)
set(rapt_flags_portable "")

set(rapt_include_dirs "${PROJECT_SOURCE_DIR}/include" "${rapt_generated}/include")
set(rapt_private_include_dirs "${PROJECT_SOURCE_DIR}/src" "${rapt_generated}/private")

# Tests of private code need the same view of the tree as the libraries themselves.
add_library(rapt_private INTERFACE)
target_include_directories(rapt_private INTERFACE ${rapt_include_dirs} ${rapt_private_include_dirs})
target_link_libraries(rapt_private INTERFACE rapt_options Threads::Threads)

# Highway's headers. Its checks of debug builds would call its library.
add_library(rapt_highway INTERFACE)
target_include_directories(rapt_highway SYSTEM INTERFACE $<TARGET_PROPERTY:hwy::hwy,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(rapt_highway INTERFACE HWY_COMPILE_ONLY_STATIC HWY_IS_DEBUG_BUILD=0)

# rapt_objects(NAME SOURCES source… [LIGHT source… LEVEL -O…] KERNELS source… [SMALL source…]): the object libraries of
# rapt::NAME, listed in rapt_NAME_objects. LIGHT sources have no loops that anyone waits for: a release compiles them at
# that level, which is faster. Kernels are compiled once for each SIMD target; small ones together.
function(rapt_objects name)
  cmake_parse_arguments(objects "" "LEVEL" "SOURCES;LIGHT;KERNELS;SMALL" ${ARGN})
  add_library(rapt_${name}_objects OBJECT ${objects_SOURCES})
  add_library(rapt_${name}_light OBJECT ${objects_LIGHT})
  target_compile_options(rapt_${name}_light PRIVATE $<$<CONFIG:Release>:${objects_LEVEL}>)
  set(list "")
  foreach(part IN ITEMS objects light)
    target_link_libraries(rapt_${name}_${part} PRIVATE rapt_private)
    list(APPEND list $<TARGET_OBJECTS:rapt_${name}_${part}>)
  endforeach()
  foreach(target IN LISTS RAPT_TARGETS)
    add_library(rapt_${name}_${target} OBJECT ${objects_KERNELS} ${objects_SMALL})
    rapt_batch(rapt_${name}_${target} 10 APART ${objects_KERNELS})
    target_compile_definitions(rapt_${name}_${target} PRIVATE RAPT_TARGET=${target})
    target_compile_options(rapt_${name}_${target} PRIVATE ${rapt_flags_${target}})
    target_link_libraries(rapt_${name}_${target} PRIVATE rapt_private rapt_highway)
    list(APPEND list $<TARGET_OBJECTS:rapt_${name}_${target}>)
  endforeach()
  set(rapt_${name}_objects "${list}" PARENT_SCOPE)
endfunction()

# rapt_library(NAME): rapt::NAME, of the objects in rapt_NAME_objects. Both kinds are made of the same objects: the package
# has the one that BUILD_SHARED_LIBS asks for; the tool and the tests use private code, so they take the static one.
if(BUILD_SHARED_LIBS)
  set(rapt_kind shared)
else()
  set(rapt_kind static)
endif()
function(rapt_library name)
  foreach(kind IN ITEMS static shared)
    set(target rapt_${name}_${kind})
    string(TOUPPER ${kind} type)
    add_library(${target} ${type} ${rapt_${name}_objects})
    if(NOT kind STREQUAL rapt_kind AND NOT RAPT_BUILD_TESTS)
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME rapt_${name} EXPORT_NAME ${name}
      VERSION ${PROJECT_VERSION} SOVERSION ${rapt_abi_version})
    target_compile_features(${target} PUBLIC cxx_std_20)
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                $<BUILD_INTERFACE:${rapt_generated}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:rapt_options> Threads::Threads)
  endforeach()
  # Exports are marked in the headers. The standard library marks its templates too; the version script hides them.
  if(NOT APPLE)
    set(exports "${PROJECT_SOURCE_DIR}/cmake/templates/exports.map")
    target_link_options(rapt_${name}_shared PRIVATE "LINKER:--version-script=${exports}")
    set_target_properties(rapt_${name}_shared PROPERTIES LINK_DEPENDS "${exports}")
    if(NOT RAPT_SANITIZE)
      target_link_options(rapt_${name}_shared PRIVATE LINKER:--no-undefined)
    endif()
  endif()
  add_library(rapt::${name} ALIAS rapt_${name}_${rapt_kind})
endfunction()
