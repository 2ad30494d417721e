# The parts behind `rapt reproduce` and their report: a library of its own above all others.
include_guard(GLOBAL)
include(benchmarks)
include(pictures)
include(solve)

# The examples, the stored results and the style sheet are embedded in the tool, so that it works wherever it is
# installed.
set(rapt_reproduce_source_dir "${PROJECT_SOURCE_DIR}/src/reproduce")
file(GLOB rapt_examples CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.json")
list(SORT rapt_examples)
file(GLOB rapt_experiments CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/data/experiments/*.json")
list(SORT rapt_experiments)
list(LENGTH rapt_experiments rapt_experiment_count)
set(arrays "")
set(entries "")
set(experiments "")
set(n 0)
foreach(file IN LISTS rapt_examples rapt_experiments ITEMS "${rapt_reproduce_source_dir}/style.css")
  file(READ "${file}" bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n  " bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "constexpr char kFile${n}[] = {\n  ${bytes}\n};\n")
  cmake_path(GET file FILENAME name)
  if(file IN_LIST rapt_experiments)
    string(APPEND experiments "    EmbeddedFile{\"${name}\", {kFile${n}, sizeof kFile${n}}},\n")
  elseif(name MATCHES "\\.json$")
    string(APPEND entries "    {\"${name}\", {kFile${n}, sizeof kFile${n}}},\n")
  endif()
  set(last ${n})
  math(EXPR n "${n} + 1")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
endforeach()
file(CONFIGURE OUTPUT "${rapt_generated}/reproduce/resources.cc" CONTENT "#include \"reproduce/resources.h\"

#include <array>

namespace rapt::reproduce {
namespace {

${arrays}
constexpr EmbeddedFile kExamples[] = {
${entries}};
constexpr std::array<EmbeddedFile, ${rapt_experiment_count}> kExperiments{
${experiments}};

}  // namespace

std::span<const EmbeddedFile> example_files() { return kExamples; }
std::span<const EmbeddedFile> experiment_files() { return kExperiments; }

std::string_view style_sheet() { return {kFile${last}, sizeof kFile${last}}; }

}  // namespace rapt::reproduce
" @ONLY)

file(GLOB rapt_reproduce_sources CONFIGURE_DEPENDS "${rapt_reproduce_source_dir}/*.cc")
add_library(rapt_reproduce STATIC ${rapt_reproduce_sources} "${rapt_generated}/reproduce/resources.cc")
rapt_compile_quickly(rapt_reproduce)
rapt_batch(rapt_reproduce 24)
target_compile_definitions(rapt_reproduce PRIVATE RAPT_VERSION="${PROJECT_VERSION}")
target_link_libraries(rapt_reproduce PUBLIC rapt_solve rapt_pictures PRIVATE rapt_bench)
