#include <gtest/gtest.h>

#include <cctype>
#include <regex>
#include <sstream>

#include "cli/help.h"
#include "cli/options.h"
#include "models/search.h"
#include "tasks/fields.h"
#include "tasks/image_fields.h"
#include "tasks/image_run.h"
#include "tasks/scene_run.h"
#include "tasks/sequence_run.h"
#include "tests/cli/live_cli.h"

// The defaults in --help are those of the code.
namespace rapt::test {
namespace {

// The text of an option on one line, however it was wrapped; and the contents of its last [].
std::string line_of(const std::string& help, const std::string& option) {
  std::istringstream lines(help);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    if (!found.empty() && (first == std::string::npos || first < 20)) break;
    if (!found.empty()) found += " " + line.substr(first);
    else if (line.starts_with("  " + option + " ")) found = line;
  }
  return found;
}
std::string default_of(const std::string& help, const std::string& option) {
  const std::string line = line_of(help, option);
  const std::size_t begin = line.rfind('[');
  return begin == std::string::npos || !line.ends_with("]") ? "" : line.substr(begin + 1, line.size() - begin - 2);
}

// "0.003; scenes, case: 0.002" for a kind of run: the first, or that of whatever names it.
std::string resolved(const std::string& text, const Words& names) {
  std::string value;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    const std::size_t colon = part.rfind(": ");
    if (colon == std::string::npos) {
      value = part;
      continue;
    }
    std::istringstream labels(part.substr(0, colon));
    for (std::string label; std::getline(labels, label, ',');) {
      label.erase(0, label.find_first_not_of(' '));
      if (std::find(names.begin(), names.end(), label) != names.end()) value = part.substr(colon + 2);
    }
  }
  return value;
}

class TrainHelp : public testing::Test {
 protected:
  static void SetUpTestSuite() { help_ = new std::string(run_cli({"train", "--help"}).out); }
  static void TearDownTestSuite() { delete help_; }

  template <class T>
  void expect(const char* option, const Words& names, const T& value) const {
    std::string text;
    if constexpr (std::is_enum_v<T>) text = tasks::name_of(value);
    else if constexpr (std::is_same_v<T, bool>) text = value ? "true" : "false";
    else text = cli::format_as(static_cast<double>(value), "%.10g");
    EXPECT_EQ(resolved(default_of(*help_, option), names), text) << names.back() << ": " << line_of(*help_, option);
  }
  void expect_training(const Words& names, const training::TrainOptions& o) const {
    expect("--rate", names, o.rate);
    expect("--schedule", names, o.schedule);
    expect("--epochs", names, o.epochs);
    expect("--batch", names, o.batch);
    expect("--parts", names, o.parts);
    expect("--optimizer", names, o.optimizer);
    expect("--warmup", names, o.warmup);
    expect("--weight-decay", names, o.weight_decay);
    expect("--label-smoothing", names, o.label_smoothing);
  }

  static std::string* help_;
};
std::string* TrainHelp::help_ = nullptr;

TEST_F(TrainHelp, HasTheDefaultsOfEveryTaskAndModel) {
  for (const char* task : {"reverse", "case", "pairs"})
    for (const char* model : {"seq2seq", "transformer"}) {
      const tasks::SequenceRunConfig run = tasks::task_defaults(task);
      const std::string name = std::string(task) == "pairs" ? "--data" : task;
      const Words names{"sequences", model, name, name + " with " + model};
      expect_training(names, run.training);
      if (std::string(model) == "transformer") {
        expect("--dropout", names, run.model.transformer.dropout);
        expect("--width", names, run.model.transformer.width);
        expect("--layers", names, run.model.transformer.layers);
      } else {
        expect("--dropout", names, run.model.seq2seq.dropout);
        expect("--hidden", names, run.model.seq2seq.hidden);
        expect("--embedding", names, run.model.seq2seq.embedding);
        expect("--bidirectional", names, run.model.seq2seq.bidirectional);
      }
    }
  for (const char* task : {"digits", "shapes", "cifar10", "cifar100", "mnist"})
    for (const models::ImageModelKind model : {models::ImageModelKind::attention, models::ImageModelKind::cnn}) {
      const tasks::ImageRunConfig run = tasks::image_defaults(task, model);
      const std::string name(tasks::name_of(model));
      const Words names{"images", name, task, std::string(task) + " with " + name};
      expect_training(names, run.training);
      expect("--flip", names, run.data.augmentation.flip);
      expect("--width", names, name == "cnn" ? run.model.cnn.width : run.model.attention.width);
      expect("--dropout", names, name == "cnn" ? run.model.cnn.dropout : run.model.attention.dropout);
      if (name == "attention") expect("--patch", names, run.model.attention.patch);
      else expect("--stages", names, run.model.cnn.stages);
    }
  const tasks::SceneRunConfig scenes = tasks::scene_defaults();
  expect_training({"scenes"}, scenes.training);
  expect("--width", {"scenes"}, scenes.model.width);
  expect("--train-size", {"scenes"}, scenes.data.train);
  expect("--train-size", {"case"}, tasks::CaseOptions{}.train);
  expect("--longest", {"--data"}, tasks::DataConfig{}.longest);
}

TEST(Help, HasTheDefaultsOfDecodingAndMeasuring) {
  const models::SearchOptions search;
  for (const char* verb : {"evaluate", "decode"}) {
    const std::string help = run_cli({verb, "--help"}).out;
    EXPECT_TRUE(default_of(help, "--beam").starts_with(std::to_string(search.beam))) << help;
    EXPECT_EQ(default_of(help, "--length-penalty"), cli::format_as(search.length_penalty, "%g")) << help;
    EXPECT_EQ(default_of(help, "--threads"), "all processors") << help;
  }
  EXPECT_EQ(default_of(run_cli({"decode", "--help"}).out, "--nbest"), std::to_string(search.nbest));
  EXPECT_EQ(default_of(run_cli({"evaluate", "--help"}).out, "--split"), "test");
  EXPECT_EQ(default_of(run_cli({"train", "--help"}).out, "--threads"), "all processors");
  EXPECT_EQ(default_of(run_cli({"count", "--help"}).out, "--heads"), "1");
  EXPECT_EQ(default_of(run_cli({"reproduce", "--help"}).out, "--out"), "reproduce");
  const std::string bench = run_cli({"bench", "--help"}).out;
  EXPECT_EQ(default_of(bench, "--direction"), "both") << bench;
  EXPECT_TRUE(has(line_of(bench, "--dtype"), "[each row's own")) << bench;
}

TEST(Help, OptionsSayWhatTheyTakeAndBeginAlike) {
  const std::regex option(R"(^  (--[a-z0-9-]+)( \S+)*?  +(\S.*)$)");
  for (const char* verb : {"train", "evaluate", "decode", "solve", "count", "reproduce"}) {
    std::istringstream lines(run_cli({verb, "--help"}).out);
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
      std::smatch part;
      if (!std::regex_match(line, part, option)) continue;
      ++count;
      EXPECT_FALSE(has(line, " TEXT ")) << line;
      EXPECT_FALSE(std::islower(static_cast<unsigned char>(part[3].str()[0]))) << line;
    }
    EXPECT_GE(count, 5) << verb;
  }
}

// The program, its verbs, and the kinds of plot.
TEST(Help, IsNoWiderThanAHundredColumns) {
  int count = 0;
  std::vector<Words> commands{{}, {"plot"}};
  for (std::size_t n = 0; n < commands.size(); ++n) {
    Words command = commands[n];
    command.emplace_back("--help");
    const CliResult help = run_cli(command);
    ASSERT_EQ(help.status, 0) << help.err;
    bool lists = false, examples = false, continues = false;
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(cli::character_count(line), 100U) << line;
      ++count;
      // Commands can be copied: they are broken only by a backslash.
      const bool starts = line.starts_with("  rapt ") || line.starts_with("  mpirun ");
      EXPECT_TRUE(!examples || line.empty() || starts || (continues && line.starts_with("    "))) << line;
      continues = line.ends_with(" \\");
      examples = examples || line.starts_with("Example");
      if (n < 2 && lists && line.starts_with("  ") && line[2] != ' ') {
        Words verb = commands[n];
        verb.push_back(line.substr(2, line.find(' ', 2) - 2));
        if (verb != Words{"plot"}) commands.push_back(verb);
      }
      if (line == "Verbs:" || line == "Kinds:") lists = true;
      else if (line.empty()) lists = false;
    }
  }
  EXPECT_TRUE(has(run_cli({"plot", "--help"}).out, "rapt plot [OPTIONS] [KIND]"));
  EXPECT_GE(commands.size(), 20U);
  EXPECT_GE(count, 500);
}

// What stands in the place of an argument is a word in capitals, in the line of usage as in the list.
TEST(Help, NamesArgumentsAlike) {
  const std::vector<std::pair<Words, std::string>> usages{
      {{"solve"}, "FILE.json"},
      {{"count"}, "[FILE.json]"},
      {{"bench"}, "[NAME...]"},
      {{"decode"}, "RUN [TEXT...]"},
      {{"plot", "heatmap"}, "A.npy"},
      {{"plot", "alignment"}, "W.npy"},
      {{"plot", "curves"}, "METRICS.jsonl|RUN|A.npy..."},
      {{"plot", "bars"}, "FILE.json"},
      {{"plot", "scaling"}, "FILE.json"},
      {{"plot", "centers"}, "RUN|C.npy..."},
      {{"plot", "maps"}, "RUN IMAGE"},
      {{"plot", "scenes"}, "RUN [N...]"},
  };
  for (const auto& [verb, usage] : usages) {
    Words command = verb;
    command.emplace_back("--help");
    const std::string help = run_cli(command).out;
    std::string path;
    for (const std::string& word : verb) path += word + " ";
    EXPECT_TRUE(has(help, "Usage: rapt " + path + "[OPTIONS] " + usage + "\n")) << help;
    const std::string name = usage.substr(usage[0] == '[', usage.find_first_of(" .]", 1) - (usage[0] == '['));
    EXPECT_TRUE(has(help, "\nPositionals:\n  " + name)) << help;
    EXPECT_FALSE(has(help, "TEXT ...\n")) << help;
    EXPECT_FALSE(has(help, "\n\n\n")) << help;
    EXPECT_TRUE(help.ends_with("\n") && !help.ends_with("\n\n")) << help;
  }
  EXPECT_TRUE(has(run_cli({"solve"}).err, "solve: expected FILE.json, got none"));
}

// A description goes on where it began; and a line of prose keeps its words.
TEST(Help, IsWrappedUnderItsDescriptions) {
  CLI::App app("About", "rapt");
  app.formatter(cli::help_formatter());
  std::string target, words;
  for (int n = 0; n < 30; ++n) words += (n > 0 ? " " : "") + std::string("word");
  app.add_option("--option", target, words + " ÷÷÷ [none]");
  app.footer(words);
  const std::string help = app.help();
  EXPECT_TRUE(has(help, "\n" + std::string(30, ' ') + "word word")) << help;
  EXPECT_TRUE(has(help, "word\nword")) << help;
}

}  // namespace
}  // namespace rapt::test
