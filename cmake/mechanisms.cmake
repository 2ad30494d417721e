# Reads src/mechanisms/registry.txt and writes what follows from it into the build tree.
set(rapt_generated "${PROJECT_BINARY_DIR}/generated")

# The SIMD targets: names of rapt::Isa and of the namespaces their code lies in.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(rapt_known_targets sse4 avx2 avx512)
else()
  set(rapt_known_targets portable)
endif()
set(RAPT_TARGETS "${rapt_known_targets}" CACHE STRING "SIMD targets to compile: some of ${rapt_known_targets}, or all, native, newest")
# native: the two newest that this machine runs, enough for it and for slightly older ones, and a third less to compile;
# newest: the last of them alone.
set(rapt_asked_targets "${RAPT_TARGETS}")
if(RAPT_TARGETS MATCHES "^(all|native|newest)$")
  set(RAPT_TARGETS "${rapt_known_targets}")
endif()
if(rapt_asked_targets MATCHES "^(native|newest)$")
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
    if(flags MATCHES " avx512vl ")
      list(REMOVE_ITEM RAPT_TARGETS sse4)
    elseif(flags MATCHES " avx2 ")
      list(REMOVE_ITEM RAPT_TARGETS avx512)
    elseif(flags MATCHES " sse4_2 ")
      list(REMOVE_ITEM RAPT_TARGETS avx2 avx512)
    endif()
  endif()
endif()
if(rapt_asked_targets STREQUAL "newest")
  list(GET RAPT_TARGETS -1 RAPT_TARGETS)
endif()
foreach(target IN LISTS RAPT_TARGETS)
  if(NOT target IN_LIST rapt_known_targets)
    message(FATAL_ERROR "RAPT_TARGETS: '${target}' is not a target of this platform; it has: ${rapt_known_targets}")
  endif()
endforeach()
if(NOT RAPT_TARGETS)
  message(FATAL_ERROR "RAPT_TARGETS is empty; this platform has: ${rapt_known_targets}")
endif()

include(registry)
rapt_read_registry(mechanism rapt_mechanisms)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/mechanisms/registry.txt")

set(rapt_program_sources "")
set(registry_includes "")
set(registry_programs "")
set(registry_definitions "")
set(registry_entries "")
set(builtin_declarations "")
set(target_list "")

foreach(name IN LISTS rapt_mechanisms)
  rapt_struct_name("${name}" struct)
  set(source "${rapt_generated}/programs/${name}.cc")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/templates/programs.cc.in" "${source}" @ONLY)
  list(APPEND rapt_program_sources "${source}")

  set(slots "")
  foreach(target IN LISTS RAPT_TARGETS)
    string(APPEND slots "\n    {Isa::${target}, &${target}::programs_${name}},")
  endforeach()
  string(APPEND registry_includes "#include \"mechanisms/${name}.h\"\n")
  string(APPEND registry_programs "const Programs& programs_${name}();\n")
  string(APPEND registry_entries "      builtin::${name}().definition().entry,\n")
  string(APPEND builtin_declarations "RAPT_API const MechanismInfo& ${name}();\n")
  string(APPEND registry_definitions "const MechanismInfo& ${name}() {
  static const Registered<mechanisms::${struct}> registered(\"${name}\", {${slots}
  });
  return registered.info;
}

")
endforeach()

set(registry_targets "")
foreach(target IN LISTS RAPT_TARGETS)
  string(APPEND registry_targets "namespace rapt::inline v1::${target} {\n${registry_programs}}  // namespace rapt::inline v1::${target}\n\n")
  string(APPEND target_list " X(${target})")
endforeach()

set(rapt_registry_source "${rapt_generated}/registry.cc")
configure_file("${PROJECT_SOURCE_DIR}/cmake/templates/registry.cc.in" "${rapt_registry_source}" @ONLY)
configure_file("${PROJECT_SOURCE_DIR}/cmake/templates/mechanisms.h.in" "${rapt_generated}/include/rapt/mechanisms.h" @ONLY)
configure_file("${PROJECT_SOURCE_DIR}/cmake/templates/targets.h.in" "${rapt_generated}/private/backends/cpu/targets.h" @ONLY)
