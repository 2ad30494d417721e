# The Python module rapt._core. scikit-build-core installs it beside python/rapt (pyproject.toml).
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
find_package(nanobind CONFIG REQUIRED)
file(GLOB rapt_python_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/src/*.cc")
nanobind_add_module(rapt_python STABLE_ABI NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS ${rapt_python_sources})
set_target_properties(rapt_python PROPERTIES OUTPUT_NAME _core)
# What is kept between the passes is private, hence the static library and the private include directories.
target_link_libraries(rapt_python PRIVATE rapt_private rapt_attend_static ${CMAKE_DL_LIBS})
# The colours of pictures and the explorer's page are those of the tool.
target_sources(rapt_python PRIVATE "${PROJECT_SOURCE_DIR}/src/pictures/color.cc")
install(TARGETS rapt_python LIBRARY DESTINATION rapt COMPONENT python)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/explorer/page/" DESTINATION rapt/explorer_page COMPONENT python)

# The package in the build tree: the module beside links to its sources.
set(rapt_python_package "${PROJECT_BINARY_DIR}/python")
file(MAKE_DIRECTORY "${rapt_python_package}/rapt")
set_target_properties(rapt_python PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${rapt_python_package}/rapt")
file(GLOB rapt_python_modules CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/rapt/*.py" "${PROJECT_SOURCE_DIR}/python/rapt/*.pyi"
     "${PROJECT_SOURCE_DIR}/python/rapt/py.typed" "${PROJECT_SOURCE_DIR}/python/rapt/torch")
foreach(path IN LISTS rapt_python_modules)
  cmake_path(GET path FILENAME name)
  file(CREATE_LINK "${path}" "${rapt_python_package}/rapt/${name}" SYMBOLIC)
endforeach()
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/explorer/page" "${rapt_python_package}/rapt/explorer_page" SYMBOLIC)
