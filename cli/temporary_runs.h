#pragma once

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "rapt/error.h"

namespace rapt::cli {

// A directory for runs that are not kept; removed with the object.
class TemporaryRuns {
 public:
  // `verb` begins the error's message.
  explicit TemporaryRuns(const std::string& verb) {
    std::string name = (std::filesystem::temp_directory_path() / "rapt-runs-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw Error(verb + ": cannot make a directory " + name + "; give one by --out");
    path_ = name;
  }
  ~TemporaryRuns() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryRuns(const TemporaryRuns&) = delete;
  TemporaryRuns& operator=(const TemporaryRuns&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Ends an interrupted comparison: says what is kept and how to continue.
[[noreturn]] inline void stop_comparison(const std::string& verb, const std::string& out) {
  std::cerr << "rapt: " << verb << ": stopped; "
            << (out.empty() ? "nothing is kept without --out DIR"
                            : "everything is saved in " + out + "; run the same command to continue")
            << std::endl;
  throw ExitStatus{kInterrupted};
}

// Prefixes the library's messages about runs, settings and files with the verb.
template <class Compare>
auto compared(const std::string& verb, const Compare& compare) {
  try {
    return compare();
  } catch (const Error& error) {
    throw Error(verb + ": " + error.what());
  }
}

}  // namespace rapt::cli
