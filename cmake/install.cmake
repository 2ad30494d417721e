include(CMakePackageConfigHelpers)

set(rapt_libraries attend)
if(RAPT_BUILD_TRAIN)
  list(APPEND rapt_libraries train)
endif()

# rapt_install_package(KIND [option of install()]…): headers, libraries of that kind, CMake package and pkg-config files.
function(rapt_install_package kind)
  set(files "${PROJECT_BINARY_DIR}/package/${kind}")
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rapt")
  list(TRANSFORM rapt_libraries REPLACE "(.+)" "rapt_\\1_${kind}" OUTPUT_VARIABLE targets)
  install(TARGETS ${targets} rapt_cuda_${kind} EXPORT rapt_${kind}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${ARGN}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${ARGN})
  # Shared libraries find each other wherever the prefix is moved.
  set_target_properties(${targets} PROPERTIES INSTALL_RPATH "$ORIGIN")
  set(without "")
  if(NOT RAPT_BUILD_TRAIN)
    set(without PATTERN trained_model.h EXCLUDE)
  endif()
  if(NOT rapt_mpi)
    list(APPEND without PATTERN mpi.h EXCLUDE)
  endif()
  if(NOT rapt_nccl)
    list(APPEND without PATTERN nccl.h EXCLUDE)
  endif()
  if(NOT rapt_subwords)
    list(APPEND without PATTERN subwords.h EXCLUDE)
  endif()
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/rapt" "${rapt_generated}/include/rapt"
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${ARGN} FILES_MATCHING PATTERN "*.h" ${without})
  # The headers of the CUDA kernels, for a program's own mechanisms. They include each other relative to rapt/cuda.
  set(cuda_headers "${CMAKE_INSTALL_INCLUDEDIR}/rapt/cuda")
  install(FILES "${PROJECT_SOURCE_DIR}/include/rapt/cuda/mechanism.cuh" DESTINATION "${cuda_headers}" ${ARGN})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/backends/cuda" "${rapt_generated}/private/backends/cuda"
    DESTINATION "${cuda_headers}/backends" ${ARGN}
    FILES_MATCHING PATTERN "*.cuh" PATTERN "array.h" PATTERN "call.h" PATTERN "programs.h" PATTERN "programs_layout.h" PATTERN "added.h"
                   PATTERN "normalizers.h" PATTERN "sm90.h" PATTERN "mma.h" PATTERN "wgmma.h"
                   PATTERN "tensor_map.h" PATTERN "decode_parts.h" PATTERN "kernels.h" PATTERN "decode_merge.cu"
                   PATTERN "tensor_map.cu")
  list(TRANSFORM rapt_normalizers REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/normalizers/\\1.h" OUTPUT_VARIABLE normalizer_headers)
  install(FILES "${PROJECT_SOURCE_DIR}/src/normalizers/contract.h" ${normalizer_headers}
    DESTINATION "${cuda_headers}/normalizers" ${ARGN})
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION ${CMAKE_INSTALL_DOCDIR} ${ARGN})
  if(RAPT_BUILD_TRAIN)
    # The digits in rapt::train are by others, who are credited there.
    install(FILES "${PROJECT_SOURCE_DIR}/data/README.md" DESTINATION ${CMAKE_INSTALL_DOCDIR} ${ARGN} RENAME DATA.md)
  endif()

  # Components with export sets of their own: without MPI, NCCL or SentencePiece the rest is usable.
  foreach(part IN ITEMS mpi nccl subwords)
    if(rapt_${part})
      install(TARGETS rapt_${part}_${kind} EXPORT rapt_${part}_${kind}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${ARGN}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${ARGN})
      set_target_properties(rapt_${part}_${kind} PROPERTIES INSTALL_RPATH "$ORIGIN")
      install(EXPORT rapt_${part}_${kind} NAMESPACE rapt:: FILE rapt_${part}_${kind}_targets.cmake
        DESTINATION "${package_dir}" ${ARGN})
    endif()
  endforeach()

  # CMake package
  install(EXPORT rapt_${kind} NAMESPACE rapt:: FILE rapt_${kind}_targets.cmake DESTINATION "${package_dir}" ${ARGN})
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/templates/raptConfig.cmake.in"
    "${files}/raptConfig.cmake" INSTALL_DESTINATION "${package_dir}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
  write_basic_package_version_file("${files}/raptConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${files}/raptConfig.cmake" "${files}/raptConfigVersion.cmake" DESTINATION "${package_dir}" ${ARGN})

  # pkg-config: a static library names everything it needs, so that users need not pass --static, nor C programs link
  # C++. Paths are relative to the file: the prefix may be moved, and cmake --install --prefix may choose it late.
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
             OUTPUT_VARIABLE pc_prefix)
  string(STRIP "-lstdc++ -lm ${CMAKE_THREAD_LIBS_INIT}" needs)
  set(pc_libs_static "${needs}")
  set(pc_private_shared "${needs}")
  set(pc_libs "${pc_libs_${kind}}")
  set(pc_private "${pc_private_${kind}}")
  set(attend_requires "")
  set(train_requires rapt-attend)
  set(attend_about "Every attention mechanism as one fused kernel")
  set(train_about "Models and training on Rapt's attention")
  foreach(pc_name IN LISTS rapt_libraries)
    set(pc_requires "${${pc_name}_requires}")
    set(pc_about "${${pc_name}_about}")
    configure_file("${PROJECT_SOURCE_DIR}/cmake/templates/rapt.pc.in" "${files}/rapt-${pc_name}.pc" @ONLY)
    install(FILES "${files}/rapt-${pc_name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" ${ARGN})
  endforeach()
endfunction()

rapt_install_package(${rapt_kind})
if(TARGET rapt_cli)
  install(TARGETS rapt_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
