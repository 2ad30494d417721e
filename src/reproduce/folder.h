#pragma once

#include <filesystem>

#include "reproduce/report.h"

namespace rapt::reproduce {

// The directory of a report: index.html, results.json, pictures/ and runs/. All of it is made beside its place under a
// temporary name, and takes it at once; an older report there is there until then, and whole if this ends early.
class ReportFolder {
 public:
  // Throws rapt::Error where the place holds something that is not a report, or cannot be written beside.
  explicit ReportFolder(std::filesystem::path place);
  ~ReportFolder();  // removes what has not taken its place
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;

  const std::filesystem::path& place() const { return place_; }
  std::filesystem::path runs() const { return work_ / "runs"; }

  void publish(const Report& report);

 private:
  std::filesystem::path place_;
  std::filesystem::path work_;
};

}  // namespace rapt::reproduce
