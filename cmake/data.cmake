# Files embedded in a library: each becomes a source of the build tree, in which NAMESPACE::function() returns its
# bytes.
function(rapt_embed file function result)
  cmake_parse_arguments(embed "" "NAMESPACE" "" ${ARGN})
  file(READ "${file}" bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n  " bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  set(content "#include <cstddef>
#include <span>

namespace ${embed_NAMESPACE} {

std::span<const unsigned char> ${function}();

namespace {
constexpr unsigned char k_${function}[] = {
  ${bytes}
};
}  // namespace

std::span<const unsigned char> ${function}() { return k_${function}; }

}  // namespace ${embed_NAMESPACE}
")
  # Written only if it changed.
  file(CONFIGURE OUTPUT "${rapt_generated}/data/${function}.cc" CONTENT "${content}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  set(${result} "${rapt_generated}/data/${function}.cc" PARENT_SCOPE)
endfunction()
