#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "rapt/error.h"

namespace rapt::cli {

// A place for runs that nobody asked to keep, gone with the object.
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

}  // namespace rapt::cli
