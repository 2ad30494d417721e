// The command line of the fast verbs: one word per line, in a directory with a few arrays. Whatever they are, the
// status is 0, 1 or 2.

#include <stdlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run.h"
#include "tests/tensor/npy_bytes.h"

namespace {

constexpr const char* kVerbs[] = {"list", "count", "solve", "attend", "conv", "plot", "evaluate", "decode"};

// A working directory, removed when the process ends.
struct Place {
  Place() {
    std::string name = (std::filesystem::temp_directory_path() / "rapt_fuzz_arguments_XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    path = name;
    std::filesystem::current_path(path);
  }
  ~Place() {
    std::error_code ignored;
    std::filesystem::current_path("/", ignored);
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

void write_arrays() {
  for (const char* name : {"q.npy", "k.npy", "v.npy"}) {
    std::string numbers;
    for (int n = 0; n < 2 * 5 * 4; ++n) {
      const float x = static_cast<float>(n % 7) / 7;
      numbers.append(reinterpret_cast<const char*>(&x), sizeof x);
    }
    std::ofstream(name, std::ios::binary)
        << rapt::test::npy_bytes(1, rapt::test::npy_dict("<f4", "False", "(1, 2, 5, 4)"), numbers);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Place place;
  write_arrays();
  std::vector<std::string> words{"rapt", kVerbs[data[0] % std::size(kVerbs)]};
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  for (std::string line; std::getline(lines, line);) {
    // Nothing outside the directory is read or written, and no more threads than a machine has.
    if (line.find('/') != std::string::npos || line.find("..") != std::string::npos) return 0;
    if (line.starts_with("--th")) return 0;
    words.push_back(std::string(line.c_str()));
  }
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  argv.push_back(nullptr);
  std::ostringstream out, err;
  auto* const usual_out = std::cout.rdbuf(out.rdbuf());
  auto* const usual_err = std::cerr.rdbuf(err.rdbuf());
  const int status = rapt::cli::run(static_cast<int>(words.size()), argv.data());
  std::cout.rdbuf(usual_out);
  std::cerr.rdbuf(usual_err);
  if (status < 0 || status > 2 || (status == 2 && err.str().empty())) std::abort();
  // The results of one call must not be the input of the next.
  for (const auto& entry : std::filesystem::directory_iterator(place.path)) std::filesystem::remove_all(entry.path());
  return 0;
}
