#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "reproduce/report.h"

namespace rapt::reproduce {

// The directory of a report: index.html, results.json, pictures/ and runs/. All of it is made beside its place under a
// temporary name, and takes it at once; an older report there is there until then, and whole if this ends early.
// PLACE.unfinished has the models of a command that was interrupted, until one with the same settings goes on with them.
class ReportFolder {
 public:
  // Throws rapt::Error if the place holds something other than a report, or if its parent is not writable. `settings`
  // tells which models may be reused; empty: nothing is kept or reused.
  explicit ReportFolder(std::filesystem::path place, std::string settings = "");
  ~ReportFolder();  // removes what has not taken its place
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;

  const std::filesystem::path& place() const { return place_; }
  std::filesystem::path runs() const { return work_ / "runs"; }

  void publish(const Report& report);

  // Keeps the runs and returns where; empty if there are none.
  std::optional<std::filesystem::path> keep();

 private:
  std::filesystem::path unfinished() const { return place_.string() + ".unfinished"; }

  std::filesystem::path place_;
  std::filesystem::path work_;
  std::string settings_;
};

}  // namespace rapt::reproduce
