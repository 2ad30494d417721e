include(CMakePackageConfigHelpers)

install(TARGETS rapt EXPORT rapt_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/rapt" "${rapt_generated}/include/rapt"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The digits in the library are by others, whose names go with it.
install(FILES "${PROJECT_SOURCE_DIR}/data/README.md" DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME DATA.md)
if(TARGET rapt_cli)
  # A shared librapt is found next to the tool wherever the prefix is moved to.
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_FULL_BINDIR}"
             OUTPUT_VARIABLE libdir_from_bindir)
  set_target_properties(rapt_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${libdir_from_bindir}")
  install(TARGETS rapt_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# CMake package
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rapt")
install(EXPORT rapt_targets NAMESPACE rapt:: FILE raptTargets.cmake DESTINATION "${package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/templates/raptConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/raptConfig.cmake" INSTALL_DESTINATION "${package_dir}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/raptConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/raptConfig.cmake" "${PROJECT_BINARY_DIR}/raptConfigVersion.cmake"
  DESTINATION "${package_dir}")

# pkg-config: a static library names all that it needs, so that --static is not asked of anyone, nor C++ of C programs.
set(needs_packages libhwy)
string(STRIP "-lstdc++ -lm ${CMAKE_THREAD_LIBS_INIT}" needs_libraries)
if(BUILD_SHARED_LIBS)
  set(pc_dependencies "Requires.private: ${needs_packages}\nLibs.private: ${needs_libraries}")
  set(pc_libs "")
else()
  set(pc_dependencies "Requires: ${needs_packages}")
  set(pc_libs "${needs_libraries}")
endif()
# Relative to the file itself: the prefix may be moved, and cmake --install --prefix may choose it late.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE pc_prefix)
configure_file("${PROJECT_SOURCE_DIR}/cmake/templates/rapt.pc.in" "${PROJECT_BINARY_DIR}/rapt.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/rapt.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
