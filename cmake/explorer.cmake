# The explorer page is a library of its own, as pictures are: who links librapt needs no web server.
include_guard(GLOBAL)
include(pictures)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
# Debian's cpp-httplib is compiled; elsewhere it may be a header alone.
pkg_check_modules(httplib IMPORTED_TARGET cpp-httplib)
set(rapt_httplib PkgConfig::httplib)
if(NOT httplib_FOUND)
  find_path(httplib_INCLUDE_DIR httplib.h REQUIRED)
  add_library(rapt_httplib INTERFACE)
  target_include_directories(rapt_httplib SYSTEM INTERFACE "${httplib_INCLUDE_DIR}")
  set(rapt_httplib rapt_httplib)
endif()

set(rapt_page_sources "")
file(GLOB rapt_page_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/explorer/page/*")
foreach(file IN LISTS rapt_page_files)
  cmake_path(GET file FILENAME name)
  string(REPLACE "." "_" function "${name}")
  rapt_embed("${file}" ${function} source NAMESPACE rapt::explorer)
  list(APPEND rapt_page_sources "${source}")
endforeach()

file(GLOB rapt_explorer_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/explorer/*.cc")
add_library(rapt_explorer STATIC ${rapt_explorer_sources} ${rapt_page_sources})
target_link_libraries(rapt_explorer PUBLIC rapt::rapt nlohmann_json::nlohmann_json
                                    PRIVATE rapt_private rapt_pictures ZLIB::ZLIB Threads::Threads)
target_link_libraries(rapt_explorer PRIVATE ${rapt_httplib})
