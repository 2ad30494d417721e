#include "reproduce/folder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tensor/files.h"
#include "tests/reproduce/fake_parts.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::test {
namespace {

namespace fs = std::filesystem;
using reproduce::Part;
using reproduce::Report;
using reproduce::ReportFolder;

Report good_report() { return run_parts(std::vector<Part>{{"good", "g", good}}, {}); }

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(ReproduceFolder, HoldsThePageTheResultsAndThePictures) {
  const TemporaryDirectory directory;
  {
    ReportFolder folder(directory.path() / "a" / "report");
    write(folder.runs() / "x" / "config.json", "{}");
    folder.publish(good_report());
  }
  EXPECT_EQ(names_in(directory.path() / "a"), std::vector<std::string>{"report"});
  const fs::path report = directory.path() / "a" / "report";
  EXPECT_EQ(names_in(report), (std::vector<std::string>{"index.html", "pictures", "results.json", "runs"}));
  EXPECT_EQ(names_in(report / "pictures"), std::vector<std::string>{"bars.svg"});
  EXPECT_TRUE(fs::exists(report / "runs" / "x" / "config.json"));
  EXPECT_EQ(nlohmann::json::parse(read_file(report / "results.json"))["holds"], true);
}

TEST(ReproduceFolder, NothingIsLeftWhenItIsNotPublished) {
  const TemporaryDirectory directory;
  {
    ReportFolder folder(directory.path() / "report");
    write(folder.runs() / "half", "written");
  }
  EXPECT_TRUE(names_in(directory.path()).empty());
}

TEST(ReproduceFolder, AnInterruptedOneLeavesItsRunsToTheNextOfTheSameSettings) {
  const TemporaryDirectory directory;
  const fs::path place = directory.path() / "report", unfinished = directory.path() / "report.unfinished";
  {
    ReportFolder folder(place, "quick, seed 1");
    EXPECT_FALSE(folder.keep());  // nothing is trained yet
    write(folder.runs() / "dot" / "state", "half");
    EXPECT_EQ(folder.keep(), unfinished);
  }
  EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"report.unfinished"});
  {
    const ReportFolder other(place, "full, seed 1");
    EXPECT_FALSE(fs::exists(other.runs() / "dot"));
  }
  ReportFolder same(place, "quick, seed 1");
  EXPECT_EQ(read_file(same.runs() / "dot" / "state"), "half");
  same.publish(good_report());
  EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"report"});
  EXPECT_EQ(names_in(place), (std::vector<std::string>{"index.html", "pictures", "results.json", "runs"}));
}

TEST(ReproduceFolder, ADirectoryOfThatNameThatIsSomethingElseIsKept) {
  const TemporaryDirectory directory;
  write(directory.path() / "report.unfinished" / "thesis.txt", "ten years");
  ReportFolder folder(directory.path() / "report", "quick, seed 1");
  write(folder.runs() / "dot" / "state", "half");
  EXPECT_FALSE(folder.keep());
  EXPECT_EQ(read_file(directory.path() / "report.unfinished" / "thesis.txt"), "ten years");
}

TEST(ReproduceFolder, AnOlderReportStaysUntilTheNewOneIsComplete) {
  const TemporaryDirectory directory;
  const fs::path place = directory.path() / "report";
  ReportFolder(place).publish(good_report());
  write(place / "old", "old");
  {
    ReportFolder folder(place);
    write(folder.runs() / "half", "written");
    EXPECT_TRUE(fs::exists(place / "old"));
  }
  EXPECT_TRUE(fs::exists(place / "old"));
  ReportFolder(place).publish(good_report());
  EXPECT_FALSE(fs::exists(place / "old"));
  EXPECT_TRUE(fs::exists(place / "index.html"));
  EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"report"});
}

TEST(ReproduceFolder, WhatIsNoReportIsRefusedAndKept) {
  const TemporaryDirectory directory;
  write(directory.path() / "mine" / "thesis.txt", "ten years");
  write(directory.path() / "other" / "results.json", R"({"accuracy": 1})");
  write(directory.path() / "broken" / "results.json", "not json");
  write(directory.path() / "file", "text");
  for (const char* name : {"mine", "other", "broken", "file"})
    EXPECT_THROW(ReportFolder(directory.path() / name), Error) << name;
  EXPECT_EQ(read_file(directory.path() / "mine" / "thesis.txt"), "ten years");
  EXPECT_EQ(names_in(directory.path()).size(), 4u);
}

// Another program puts something there while the parts run.
TEST(ReproduceFolder, WhatAppearsMeanwhileIsKept) {
  const TemporaryDirectory directory;
  ReportFolder folder(directory.path() / "report");
  write(directory.path() / "report" / "thesis.txt", "ten years");
  EXPECT_THROW(folder.publish(good_report()), Error);
  EXPECT_EQ(read_file(directory.path() / "report" / "thesis.txt"), "ten years");
}

TEST(ReproduceFolder, AnEmptyDirectoryAndATrailingSlashAreFine) {
  const TemporaryDirectory directory;
  fs::create_directory(directory.path() / "empty");
  ReportFolder((directory.path() / "empty").string() + "/").publish(good_report());
  EXPECT_TRUE(fs::exists(directory.path() / "empty" / "index.html"));
}

TEST(ReproduceFolder, TwoPicturesOfOneNameAreAnError) {
  const TemporaryDirectory directory;
  const Report report = run_parts(std::vector<Part>{{"a", "g", good}, {"b", "g", good}}, {});
  ReportFolder folder(directory.path() / "report");
  EXPECT_THROW(folder.publish(report), Error);
  EXPECT_FALSE(fs::exists(directory.path() / "report"));
}

}  // namespace
}  // namespace rapt::test
