# The parts behind `rapt reproduce` and their report: a library of its own above all others.
include_guard(GLOBAL)
include(benchmarks)
include(pictures)
include(solve)

# The examples and the style sheet travel with the tool, so that it works wherever it is installed.
set(rapt_reproduce_source_dir "${PROJECT_SOURCE_DIR}/src/reproduce")
file(GLOB rapt_examples CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.json")
list(SORT rapt_examples)
set(arrays "")
set(entries "")
set(n 0)
foreach(file IN LISTS rapt_examples ITEMS "${rapt_reproduce_source_dir}/style.css")
  file(READ "${file}" bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n  " bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "constexpr char kFile${n}[] = {\n  ${bytes}\n};\n")
  cmake_path(GET file FILENAME name)
  if(name MATCHES "\\.json$")
    string(APPEND entries "    {\"${name}\", {kFile${n}, sizeof kFile${n}}},\n")
  endif()
  set(last ${n})
  math(EXPR n "${n} + 1")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
endforeach()
file(CONFIGURE OUTPUT "${rapt_generated}/reproduce/resources.cc" CONTENT "#include \"reproduce/resources.h\"

namespace rapt::reproduce {
namespace {

${arrays}
constexpr ExampleFile kExamples[] = {
${entries}};

}  // namespace

std::span<const ExampleFile> example_files() { return kExamples; }

std::string_view style_sheet() { return {kFile${last}, sizeof kFile${last}}; }

}  // namespace rapt::reproduce
" @ONLY)

file(GLOB rapt_reproduce_sources CONFIGURE_DEPENDS "${rapt_reproduce_source_dir}/*.cc")
add_library(rapt_reproduce STATIC ${rapt_reproduce_sources} "${rapt_generated}/reproduce/resources.cc")
rapt_compile_quickly(rapt_reproduce)
rapt_batch(rapt_reproduce 24)
target_compile_definitions(rapt_reproduce PRIVATE RAPT_VERSION="${PROJECT_VERSION}")
target_link_libraries(rapt_reproduce PUBLIC rapt_solve rapt_pictures PRIVATE rapt_bench)
