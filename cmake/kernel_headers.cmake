# cmake -DLIST=FILE -DOUT=FILE -P kernel_headers.cmake: writes the files of LIST, a "NAME=PATH" on each line, as text into a source.
file(STRINGS "${LIST}" files)
set(entries "")
foreach(entry IN LISTS files)
  string(REGEX MATCH "^([^=]*)=(.*)$" matched "${entry}")
  set(name "${CMAKE_MATCH_1}")
  file(READ "${CMAKE_MATCH_2}" text)
  string(APPEND entries "    {\"${name}\", R\"kernel_header(${text})kernel_header\"},\n")
endforeach()
file(WRITE "${OUT}" "// Written by the build: what kernels include that are compiled when the program runs.
#include \"backends/cuda/runtime/compile.h\"

namespace rapt::inline v1::cuda {

std::span<const Header> kernel_headers() {
  static constexpr Header headers[] = {
${entries}  };
  return headers;
}

}  // namespace rapt::inline v1::cuda
")
