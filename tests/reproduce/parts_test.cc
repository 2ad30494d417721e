#include "reproduce/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "rapt/error.h"
#include "reproduce/format.h"
#include "reproduce/page.h"
#include "reproduce/resources.h"
#include "reproduce/stored.h"
#include "reproduce/training.h"
#include "reproduce/worked.h"
#include "tensor/files.h"
#include "tests/pictures/svg_reader.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::test {
namespace {

using reproduce::Context;
using reproduce::Part;

// Parts that neither train nor measure time.
std::vector<Part> still_parts() {
  const std::set<std::string_view> names{"examples", "order", "formulas", "convolution", "shared_attention"};
  std::vector<Part> parts;
  for (const Part& part : reproduce::all_parts())
    if (names.contains(part.name)) parts.push_back(part);
  return parts;
}

TEST(ReproduceParts, WhatMustHoldHolds) {
  Context context;
  context.quick = true;
  const reproduce::Report report = run_parts(still_parts(), context);
  ASSERT_EQ(report.parts.size(), 5u);
  for (const reproduce::PartResult& part : report.parts) {
    EXPECT_EQ(part.error, "") << part.name;
    EXPECT_FALSE(part.section.claims.empty()) << part.name;
    for (const reproduce::Claim& claim : part.section.claims) {
      EXPECT_TRUE(claim.holds || claim.weight == reproduce::Weight::informative)
          << part.name << ": " << claim.claim << ": " << claim.theirs << " and " << claim.ours;
      for (const std::string* text : {&claim.document, &claim.claim, &claim.theirs, &claim.ours, &claim.rule})
        EXPECT_FALSE(text->empty()) << part.name << ": " << claim.claim;
      // Documents have names: a file's number means nothing to a reader.
      EXPECT_FALSE(claim.document.starts_with("00") || claim.claim.starts_with("00")) << claim.document << claim.claim;
    }
    EXPECT_FALSE(part.section.document.starts_with("00")) << part.section.document;
  }
  EXPECT_NO_THROW(read_svg(to_page(report)));
}

// Ctrl-C is heard between the repeats of a measurement, not only between rows.
TEST(ReproduceParts, SpeedStopsWithinARow) {
  const auto parts = reproduce::all_parts();
  const auto speed = std::find_if(parts.begin(), parts.end(), [](const Part& part) { return part.name == "speed"; });
  ASSERT_NE(speed, parts.end());
  Context context;
  context.quick = true;
  int rows = -1;  // the first step measures the machine
  bool stop = false;
  context.on_progress = [&](std::int64_t, std::int64_t, const std::string&) { ++rows; };
  // Not where the row begins, but when it is asked again.
  int asked = 0;
  context.stop = [&] {
    stop = stop || (rows == 1 && ++asked > 1);
    return stop;
  };
  EXPECT_THROW(speed->run(context), reproduce::Interrupted);
  EXPECT_EQ(rows, 1);
}

TEST(ReproduceParts, EveryPartSaysWhichCommandGivesItsResults) {
  Context context;
  context.quick = true;
  for (const Part& part : still_parts()) {
    const reproduce::Section section = part.run(context);
    bool commands = false;
    for (const reproduce::Block& block : section.blocks)
      if (const auto* c = std::get_if<reproduce::Commands>(&block))
        for (const std::string& line : c->lines) commands = commands || line.starts_with("rapt ");
    EXPECT_TRUE(commands) << part.name;
  }
}

// A figure that the document does not print is not passed off as its own: the claim says where the numbers are from.
TEST(ReproduceExamples, NumbersThatAreNotTheDocumentsSaySo) {
  for (const char* name :
       {"000_shared_attention.json", "000_shared_attention_columns.json", "002_additive.json", "002_bilinear.json",
        "003_a_1_parameters.json", "003_b_1_quadratic_scores.json", "003_d_1_large_alpha.json"})
    EXPECT_NE(comparison_claim(reproduce::solve_example(name)).theirs.find(" from "), std::string::npos) << name;
  for (const char* name : {"001_1_1_one_query.json", "001_2_2_vectors_two_heads.json", "004_a_scores.json"})
    EXPECT_EQ(comparison_claim(reproduce::solve_example(name)).theirs.find(" from "), std::string::npos) << name;
  // Every example that says so in its source also has the field.
  for (const reproduce::EmbeddedFile& file : reproduce::example_files()) {
    const reproduce::Worked worked = reproduce::solve_example(file.name);
    const bool without = worked.problem.source.find("no numbers") != std::string::npos;
    EXPECT_FALSE(without && worked.problem.numbers_from.empty()) << file.name;
  }
}

TEST(ReproduceExamples, TheToolCarriesThoseOfTheFolder) {
  ASSERT_GE(reproduce::example_files().size(), 10u);
  for (const reproduce::EmbeddedFile& file : reproduce::example_files())
    EXPECT_EQ(read_file(std::string(RAPT_SOURCE_DIR) + "/examples/" + std::string(file.name)), file.text) << file.name;
}

TEST(ReproduceExperiments, TheToolCarriesThoseOfTheFolder) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(RAPT_SOURCE_DIR) + "/data/experiments"))
    files += entry.path().extension() == ".json" ? 1 : 0;
  ASSERT_GE(files, 1u);
  ASSERT_EQ(reproduce::experiment_files().size(), files);
  for (const reproduce::EmbeddedFile& file : reproduce::experiment_files()) {
    EXPECT_EQ(read_file(std::string(RAPT_SOURCE_DIR) + "/data/experiments/" + std::string(file.name)), file.text);
    const reproduce::StoredResults results = reproduce::parse_stored(file.name, file.text);
    EXPECT_FALSE(results.claims.empty()) << file.name;
    EXPECT_FALSE(results.tables.empty()) << file.name;
    for (const reproduce::Origin& origin : results.origins) {
      EXPECT_EQ(origin.date.size(), 10u) << file.name;
      EXPECT_FALSE(origin.machine.empty() || origin.commands.empty()) << file.name;
    }
  }
}

// What has not been run is named.
TEST(ReproduceExperiments, NamesWhatHasNotBeenRun) {
  std::set<std::string> stored;
  for (const reproduce::EmbeddedFile& file : reproduce::experiment_files())
    for (const reproduce::Origin& origin : reproduce::parse_stored(file.name, file.text).origins)
      stored.insert(std::string(file.name) + "/" + origin.of);
  std::string text;
  for (const Part& part : reproduce::all_parts())
    if (part.name == "experiments")
      for (const reproduce::Block& block : part.run(Context{}).blocks)
        if (const auto* paragraph = std::get_if<reproduce::Paragraph>(&block)) text += paragraph->text + "\n";
  ASSERT_NE(text, "");
  const auto says = [&](const char* what) { return text.find(what) != std::string::npos; };
  EXPECT_EQ(says("Not run at full size yet"), stored.size() < 4) << text;
  EXPECT_EQ(says("the accuracy on CIFAR-10"), !stored.contains("cifar10.json/runs")) << text;
  EXPECT_EQ(says("the speed of their training steps"), !stored.contains("cifar10.json/speed")) << text;
  EXPECT_EQ(says("shared attention on 10,000 scenes"), !stored.contains("scenes.json/variants")) << text;
}

constexpr const char* kStored =
    R"({"format": 1, "title": "T", "document": "003", "about": "A.", "measured": {}, "reasons": {},
  "provenance": [{"of": "runs", "date": "2026-01-02", "machine": "abacus", "commands": ["python x.py"]},
                 {"of": "speed", "date": "2026-01-03", "machine": "abacus", "commands": ["python y.py"]}],
  "tables": [{"caption": "C", "head": ["a", "b"], "rows": [["1", "2"]]}],
  "claims": [{"name": "n", "document": "003", "claim": "It learns", "theirs": "93 %", "ours": "91 %", "rule": "as much",
              "holds": false, "reason": "Half the epochs."}]})";

TEST(ReproduceExperiments, ShowsWhatIsStoredAndWhereItIsFrom) {
  reproduce::Section section{"S", "003"};
  add_stored(reproduce::parse_stored("x.json", kStored), section);
  ASSERT_EQ(section.claims.size(), 1u);
  EXPECT_EQ(section.claims[0].ours, "91 % (stored, 2026-01-03)");
  EXPECT_EQ(section.claims[0].why_not(), "Half the epochs.");
  EXPECT_EQ(section.claims[0].weight, reproduce::Weight::informative);
  std::string text;
  std::vector<std::string> commands;
  for (const reproduce::Block& block : section.blocks) {
    if (const auto* p = std::get_if<reproduce::Paragraph>(&block)) text += p->text + "\n";
    if (const auto* c = std::get_if<reproduce::Commands>(&block)) commands = c->lines;
  }
  EXPECT_NE(text.find("Measured (runs): 2026-01-02, abacus."), std::string::npos) << text;
  EXPECT_EQ(commands, (std::vector<std::string>{"python x.py", "python y.py"}));
}

TEST(ReproduceExperiments, RefusesWhatIsNotSuchAFile) {
  const auto message = [](const std::string& from, const std::string& to) {
    std::string text = kStored;
    text.replace(text.find(from), from.size(), to);
    try {
      reproduce::parse_stored("x.json", text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(message("{", "["), "x.json: expected an object, got <discarded>");
  EXPECT_EQ(message("\"format\": 1", "\"format\": 2"), "x.json: format: expected 1, got 2");
  EXPECT_EQ(message("\"about\": \"A.\"", "\"about\": 3"), "x.json: about: expected a text, got 3");
  EXPECT_EQ(message("\"reason\": \"Half the epochs.\"", "\"reason\": \"\""),
            "x.json: claims: expected a reason where 'It learns' does not hold, got none");
  EXPECT_EQ(message("[\"1\", \"2\"]", "[\"1\"]"), "x.json: tables: expected rows of 2 cells, got 1");
  EXPECT_EQ(message("\"machine\"", "\"where\""), "x.json: provenance: machine: expected one, got none");
}

TEST(ReproduceExamples, ANumberThatDiffersIsSeen) {
  reproduce::Worked worked = reproduce::solve_example("001_1_1_one_query.json");
  EXPECT_TRUE(comparison_claim(worked).holds);
  worked.comparisons.front().agrees = false;
  EXPECT_FALSE(comparison_claim(worked).holds);
  EXPECT_EQ(comparison_table(worked).rows.front().back(), "NO");
  EXPECT_THROW(reproduce::solve_example("no_such.json"), Error);
}

TEST(ReproduceTraining, TrainsScoresAndLeavesARun) {
  const TemporaryDirectory directory;
  Context context;
  context.runs = directory.path() / "runs";
  context.seed = 3;
  std::vector<std::int64_t> heard;
  context.on_progress = [&](std::int64_t done, std::int64_t total, const std::string&) {
    EXPECT_LE(done, total);
    heard.push_back(done);
  };
  const std::map<std::string, std::string> options{{"train_size", "64"}, {"valid_size", "10"}, {"test_size", "10"},
                                                   {"hidden", "8"},      {"epochs", "2"},      {"max_length", "6"}};
  std::vector<reproduce::Job> jobs{{"none", "reverse", options}, {"dot", "reverse", options}};
  jobs[0].options["attention"] = "none";
  jobs[1].options["attention"] = "dot";
  const std::vector<reproduce::Trained> runs = train_all(context, "tiny", jobs);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
  const reproduce::Trained& dot = find(runs, "dot");
  EXPECT_EQ(dot.epochs.size(), 2u);
  EXPECT_GT(dot.parameters, find(runs, "none").parameters);
  EXPECT_LE(dot.test.get("exact_match"), 1.0);
  EXPECT_EQ(dot.command,
            "rapt train reverse --attention dot --epochs 2 --hidden 8 --max-length 6 --seed 3 --test-size 10 "
            "--train-size 64 --valid-size 10 --out runs/tiny/dot");
  EXPECT_EQ(nlohmann::json::parse(read_file(dot.run / "config.json"))["training"]["seed"], 3);
  EXPECT_EQ(validation_series(runs, "exact_match").at(1).y.size(), 2u);
  EXPECT_EQ(loss_series(runs).at(0).name, "none");
  EXPECT_THROW(find(runs, "bilinear"), Error);
}

TEST(ReproduceTraining, AnInterruptionIsSavedAndGoneOnFrom) {
  const std::vector<reproduce::Job> jobs{
      {"dot",
       "reverse",
       {{"train_size", "200"}, {"valid_size", "20"}, {"test_size", "20"}, {"hidden", "8"}, {"epochs", "3"}}}};
  const TemporaryDirectory directory;
  Context context;
  context.runs = directory.path() / "whole";
  const reproduce::Trained whole = train_all(context, "tiny", jobs).front();
  context.runs = directory.path() / "halves";
  int asked = 0;
  context.stop = [&] { return ++asked > 5; };  // in the second epoch
  EXPECT_THROW(train_all(context, "tiny", jobs), reproduce::Interrupted);
  context.stop = {};
  int steps = 0;
  context.on_progress = [&](std::int64_t, std::int64_t, const std::string&) { ++steps; };
  const reproduce::Trained halves = train_all(context, "tiny", jobs).front();
  EXPECT_LT(steps, 10);  // of 12 in all
  EXPECT_EQ(read_file(halves.run / "model.safetensors"), read_file(whole.run / "model.safetensors"));
  ASSERT_EQ(halves.epochs.size(), 3u);
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(halves.epochs[n].epoch, whole.epochs[n].epoch);
    EXPECT_EQ(halves.epochs[n].loss, whole.epochs[n].loss);
    EXPECT_EQ(halves.epochs[n].valid->get("exact_match"), whole.epochs[n].valid->get("exact_match"));
  }
  EXPECT_EQ(halves.test.get("symbol_error"), whole.test.get("symbol_error"));
  EXPECT_EQ(halves.best_epoch, whole.best_epoch);
  // Other settings start over.
  std::vector<reproduce::Job> others = jobs;
  others[0].options["hidden"] = "6";
  EXPECT_EQ(train_all(context, "tiny", others).front().epochs.size(), 3u);
}

TEST(ReproduceFormat, WritesNumbersAsPeopleDo) {
  EXPECT_EQ(reproduce::percent(0.9994), "99.9 %");
  EXPECT_EQ(reproduce::grouped(5760400), "5,760,400");
  EXPECT_EQ(reproduce::grouped(-1234), "-1,234");
  EXPECT_EQ(reproduce::grouped(999), "999");
  EXPECT_EQ(reproduce::duration(0.412), "0.41 s");
  EXPECT_EQ(reproduce::duration(59.7), "1 min 00 s");
  EXPECT_EQ(reproduce::duration(200), "3 min 20 s");
  EXPECT_EQ(reproduce::of(11, 1100), "11 of 1,100");
}

TEST(ReproduceTraining, InterruptedRunsOfTheSameSettingsGoOn) {
  const TemporaryDirectory directory;
  const std::filesystem::path run = directory.path() / "run", config = run / "config.json";
  const auto experiment = tasks::start_experiment("reverse", {{}, {{"hidden", "8"}}});
  EXPECT_FALSE(reproduce::was_begun(*experiment, run));
  EXPECT_FALSE(reproduce::was_begun(*experiment, run)) << "nothing was trained yet";
  write_file(run / "state.safetensors", "");
  EXPECT_TRUE(reproduce::was_begun(*experiment, run));
  // As older versions wrote it.
  nlohmann::ordered_json settings = nlohmann::ordered_json::parse(read_file(config));
  ASSERT_EQ(settings.erase("checksum"), 1u);
  write_file(config, settings.dump(1));
  EXPECT_TRUE(reproduce::was_begun(*experiment, run));
  EXPECT_FALSE(reproduce::was_begun(*tasks::start_experiment("reverse", {{}, {{"hidden", "16"}}}), run));
  write_file(config, "{");
  EXPECT_FALSE(reproduce::was_begun(*experiment, run)) << "settings that cannot be read";
}

}  // namespace
}  // namespace rapt::test
