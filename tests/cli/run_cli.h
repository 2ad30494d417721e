#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/tensor/temporary_directory.h"

namespace rapt::test {

// The result of a run of the real program.
struct CliResult {
  int status = -1;  // 128 + the signal that ended it; 124 after a minute, or five under a sanitizer
  std::string out;
  std::string err;
};

CliResult run_cli(const std::vector<std::string>& arguments);
// Its standard output goes to that file.
CliResult run_cli_into(const std::string& stdout_path, const std::vector<std::string>& arguments);

using Numbers = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

// A .npy file, read and written by code that the program does not share.
void save_f4(const std::string& path, const Sizes& shape, const Numbers& values);
void save_f8(const std::string& path, const Sizes& shape, const Numbers& values);
void save_f2_zeros(const std::string& path, const Sizes& shape);
void save_bool(const std::string& path, const Sizes& shape, const Numbers& values);
void save_i8(const std::string& path, const Sizes& shape, const Numbers& values);

struct Loaded {
  std::string descr;
  Sizes shape;
  Numbers values;
};
Loaded load(const std::string& path);

// Repeatable numbers between −1 and 1.
Numbers pseudo_random(std::size_t count, std::uint64_t seed);

// The names of all entries of a directory, sorted; none if it does not exist.
std::vector<std::string> names_in(const std::string& directory);

}  // namespace rapt::test
