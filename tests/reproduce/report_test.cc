#include "reproduce/report.h"

#include <gtest/gtest.h>

#include <set>

#include "reproduce/results.h"
#include "tests/reproduce/fake_parts.h"

namespace rapt::test {
namespace {

using reproduce::Part;
using reproduce::Report;

TEST(ReproduceReport, HoldsWhenEveryClaimThatMustHoldDoes) {
  const std::vector<Part> parts{{"good", "g", good}, {"informative", "i", informative}};
  const Report report = run_parts(parts, {});
  EXPECT_TRUE(report.holds());
  EXPECT_EQ(report.claims().size(), 2u);
  EXPECT_EQ(report.summary(), "1 of 1 required claims hold; 0 of 1 informative ones agree.");
}

TEST(ReproduceReport, OneBrokenClaimIsEnoughToFail) {
  const std::vector<Part> parts{{"good", "g", good}, {"broken", "b", broken_claim}};
  EXPECT_FALSE(run_parts(parts, {}).holds());
}

TEST(ReproduceReport, APartThatThrowsDoesNotTakeTheOthersWithIt) {
  const std::vector<Part> parts{{"bad", "about it", throws}, {"good", "g", good}};
  const Report report = run_parts(parts, {});
  ASSERT_EQ(report.parts.size(), 2u);
  EXPECT_NE(report.parts[0].error.find("no luck"), std::string::npos);
  EXPECT_EQ(report.parts[0].section.title, "about it");
  EXPECT_TRUE(report.parts[1].error.empty());
  EXPECT_EQ(report.parts[1].section.claims.size(), 1u);
  EXPECT_FALSE(report.holds());
  EXPECT_NE(report.summary().find("1 of 2 parts failed"), std::string::npos);
}

TEST(ReproduceReport, AnInterruptionEndsAllParts) {
  const std::vector<Part> parts{{"stop", "s", interrupts}, {"good", "g", good}};
  EXPECT_THROW(run_parts(parts, {}), reproduce::Interrupted);
}

TEST(ReproduceReport, ListenersHearOfEveryPartInOrder) {
  const std::vector<Part> parts{{"bad", "b", throws}, {"good", "g", good}};
  std::vector<std::string> heard;
  reproduce::Context context;
  context.on_progress = [&](std::int64_t done, std::int64_t total, const std::string& note) {
    heard.push_back(std::to_string(done) + "/" + std::to_string(total) + " " + note);
  };
  reproduce::Listener listener;
  listener.on_start = [&](std::size_t n, std::size_t count, const Part& part) {
    heard.push_back("start " + std::to_string(n) + " of " + std::to_string(count) + " " + std::string(part.name));
  };
  listener.on_end = [&](const reproduce::PartResult& result) { heard.push_back("end " + result.name); };
  run_parts(parts, context, listener);
  EXPECT_EQ(heard,
            (std::vector<std::string>{"start 1 of 2 bad", "end bad", "start 2 of 2 good", "1/2 half", "end good"}));
}

TEST(ReproduceReport, JsonSaysWhatThePageSays) {
  const std::vector<Part> parts{{"good", "g", good}, {"broken", "b", broken_claim}, {"bad", "x", throws}};
  const Report report = run_parts(parts, {});
  const auto json =
      nlohmann::json::parse(to_json(report).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  EXPECT_EQ(json[reproduce::kReportKey], 1);
  EXPECT_EQ(json["holds"], false);
  ASSERT_EQ(json["parts"].size(), 3u);
  EXPECT_EQ(json["parts"][0]["tables"][0]["rows"][1][1], "2");
  EXPECT_EQ(json["parts"][0]["pictures"][0]["file"], "pictures/bars.svg");
  EXPECT_EQ(json["parts"][1]["claims"][0]["holds"], false);
  EXPECT_EQ(json["parts"][1]["claims"][0]["must_hold"], true);
  EXPECT_EQ(json["parts"][0]["claims"][0]["reason"], "");
  EXPECT_NE(json["parts"][1]["claims"][0]["reason"], "");
  EXPECT_EQ(json["parts"][2]["failed"], true);
  EXPECT_FALSE(json["machine"]["processor"].get<std::string>().empty());
}

TEST(ReproduceReport, RowsOfTheTableNameWhatFails) {
  const std::vector<Part> parts{{"broken", "b", broken_claim}, {"informative", "i", informative}, {"bad", "x", throws}};
  const auto rows = claim_rows(run_parts(parts, {}));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1], (std::vector<std::string>{"002", "is two", "2", "3", "NO"}));
  EXPECT_EQ(rows[2].back(), "NO (informative)");
  EXPECT_EQ(rows[3][1], "part bad");
  EXPECT_EQ(rows[3].back(), "NO");
}

TEST(ReproduceParts, NamesAreUniqueAndFitForCommandsAndAnchors) {
  std::set<std::string_view> names;
  for (const Part& part : reproduce::all_parts()) {
    EXPECT_TRUE(names.insert(part.name).second) << part.name;
    EXPECT_EQ(part.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos) << part.name;
    EXPECT_FALSE(part.about.empty());
  }
  EXPECT_GE(names.size(), 11u);
}

}  // namespace
}  // namespace rapt::test
