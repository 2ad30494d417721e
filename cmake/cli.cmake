file(GLOB rapt_cli_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.cc")
set(rapt_cli_main "${PROJECT_SOURCE_DIR}/cli/main.cc")
list(REMOVE_ITEM rapt_cli_sources "${rapt_cli_main}")

if(rapt_cli_sources)
  include(benchmarks)
  include(pictures)
  include(solve)
  include(reproduce)
  include(explorer)
  find_package(CLI11 CONFIG REQUIRED)
  find_package(nlohmann_json CONFIG REQUIRED)
  find_package(PNG REQUIRED)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)

  # All of the tool but main(), so that the tests can link it.
  add_library(rapt_cli_lib STATIC ${rapt_cli_sources})
  target_include_directories(rapt_cli_lib PUBLIC "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(rapt_cli_lib PRIVATE RAPT_VERSION="${PROJECT_VERSION}")
  target_link_libraries(rapt_cli_lib PUBLIC rapt::rapt CLI11::CLI11 nlohmann_json::nlohmann_json
                                     PRIVATE rapt_private rapt_pictures rapt_explorer rapt_solve rapt_reproduce rapt_bench PkgConfig::openblas PNG::PNG Threads::Threads)
endif()

if(TARGET rapt_cli_lib AND EXISTS "${rapt_cli_main}")
  add_executable(rapt_cli "${rapt_cli_main}")
  set_target_properties(rapt_cli PROPERTIES OUTPUT_NAME rapt RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  target_link_libraries(rapt_cli PRIVATE rapt_cli_lib rapt_options)
endif()
