#pragma once

#include <span>
#include <string>
#include <string_view>

// Files that the library carries; the build writes them into a source. See cmake/reproduce.cmake.
namespace rapt::reproduce {

struct EmbeddedFile {
  std::string_view name;  // "001_1_1_one_query.json"
  std::string_view text;
};

// The worked examples of examples/, in the order of their names.
std::span<const EmbeddedFile> example_files();

// The stored results of data/experiments, likewise.
std::span<const EmbeddedFile> experiment_files();

std::string_view style_sheet();

}  // namespace rapt::reproduce
