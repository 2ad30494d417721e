#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>

#include "attend/counted.h"
#include "cli/ensemble.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/run_report.h"
#include "cli/verbs.h"
#include "rapt/threads.h"
#include "tasks/ensemble_run.h"
#include "tasks/sequence_experiment.h"
#include "tensor/files.h"
#include "training/not_finite.h"
#include "training/sequence_objective.h"
#include "training/text_scores.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEvaluateFooter =
    "Without --data the run's own held-out examples are used: test, or --split valid or train. A\n"
    "prediction is right when it equals any target that the data gives for its source. --by-length shows\n"
    "at which lengths a model fails. BLEU and chrF are those of sacreBLEU's defaults, over the texts of\n"
    "answers and references. The text shows percentages and --json fractions: 15.4 of sacreBLEU is\n"
    "15.40 % and 0.154.\n"
    "\n"
    "Examples:\n"
    "  rapt evaluate runs/reverse\n"
    "  rapt evaluate runs/mine --worst 20 --predictions answers.tsv\n"
    "  rapt evaluate runs/mine --write-split split\n"
    "  rapt evaluate runs/mine --data held_out.tsv --beam 5 --json\n"
    "  rapt evaluate runs/a --ensemble runs/b --ensemble runs/c --beam 5\n"
    "  rapt evaluate runs/case --by-length\n";

struct EvaluateArguments {
  std::string run, data, split, beam, length_penalty, threads, predictions, worst, write_split;
  std::vector<std::string> ensemble;
  bool by_length = false;
  bool json = false;
};

constexpr const char* kUsualSplit = "test";

std::string split_name(const EvaluateArguments& a) { return a.split.empty() ? kUsualSplit : a.split; }

tasks::Split split_of(const EvaluateArguments& a) {
  return parse_choice<tasks::Split>(
      "evaluate: --split", split_name(a),
      {{"test", tasks::Split::test}, {"valid", tasks::Split::valid}, {"train", tasks::Split::train}});
}

// What would have no effect is refused rather than ignored.
void require_effect(const EvaluateArguments& a) {
  if (!a.data.empty() && !a.split.empty()) throw Error("evaluate: expected --data or --split, got both");
  if (a.write_split.empty()) return;
  for (const auto& [option, given] : {std::pair{"--data", !a.data.empty()},
                                      {"--split", !a.split.empty()},
                                      {"--beam", !a.beam.empty()},
                                      {"--length-penalty", !a.length_penalty.empty()},
                                      {"--ensemble", !a.ensemble.empty()},
                                      {"--by-length", a.by_length},
                                      {"--predictions", !a.predictions.empty()},
                                      {"--worst", !a.worst.empty()},
                                      {"--json", a.json}})
    if (given)
      throw Error(std::string("evaluate: --write-split: expected no ") + option +
                  " beside it, since nothing is evaluated, got one");
}

bool is_sequence_run(const std::string& run) {
  const std::string task = tasks::task_of_run(run);
  for (const tasks::TaskInfo& info : tasks::sequence_family().tasks)
    if (info.name == task) return true;
  return false;
}

// If a model's numbers overflow, no score is worth printing.
void require_finite(const std::string& run, const training::Scores& scores) {
  if (!std::isfinite(scores.loss))
    throw training::NotFinite("evaluate: " + run + ": expected a loss that is a number, got " +
                              training::name_of_not_finite(scores.loss));
}

// Ends the command if Ctrl-C came before everything was scored; what was scored has been printed.
void end_where_stopped(const std::string& what) {
  if (!Interrupt::asked()) return;
  std::cout.flush();
  std::cerr << "rapt: evaluate: stopped; " << what << std::endl;
  throw ExitStatus{kInterrupted};
}

// Runs on images and scenes are evaluated on their own held-out examples.
void evaluate_other(const EvaluateArguments& a) {
  for (const auto& [option, given] : {std::pair{"--data", !a.data.empty()},
                                      {"--beam", !a.beam.empty()},
                                      {"--length-penalty", !a.length_penalty.empty()},
                                      {"--by-length", a.by_length},
                                      {"--ensemble", !a.ensemble.empty()},
                                      {"--predictions", !a.predictions.empty()},
                                      {"--worst", !a.worst.empty()},
                                      {"--write-split", !a.write_split.empty()}})
    if (given)
      throw Error(std::string("evaluate: ") + option + ": expected a run on sequences, got " + a.run + ", a run on " +
                  tasks::task_of_run(a.run));
  const int threads = a.threads.empty() ? default_threads() : parse_threads("evaluate: --threads", a.threads);
  const std::unique_ptr<tasks::Experiment> run = tasks::open_experiment(a.run);
  const std::vector<float> values = tasks::best_weights(a.run, run->objective()->parameters());
  end_where_stopped("nothing was scored");
  const auto scores = run->score(split_of(a), values.data(), threads, Interrupt::asked);
  if (!scores)
    throw Error("evaluate: --split: expected a split with examples, got " + split_name(a) + ", which has none");
  require_finite(a.run, *scores);
  Json result{{"run", a.run}};
  result.update(scores_json(*scores));
  if (Interrupt::asked()) result["stopped"] = true;
  if (a.json) std::cout << result.dump(2) << std::endl;
  else std::cout << scores_line(*scores) << "\n";
  end_where_stopped("the scores are of what was done until then");
}

std::vector<tasks::Example> examples_of(const EvaluateArguments& a, tasks::SequenceRunConfig& config) {
  if (!a.data.empty()) {
    if (config.data.source == tasks::Source::cases) {
      // Its sources begin with a tag that is one token.
      std::vector<tasks::Example> list;
      for (const tasks::Example& e :
           tasks::read_pairs(a.data, tasks::Units::characters, tasks::Units::characters, config.data.longest).examples)
        list.push_back({tasks::split_case_source(tasks::join(e.source, tasks::Units::characters)), e.target});
      return list;
    }
    return tasks::load_examples(config.data, a.data);
  }
  tasks::TaskData data = tasks::load_data(config.data);
  const tasks::Split split = split_of(a);
  std::vector<tasks::Example>& list = split == tasks::Split::test    ? data.test
                                      : split == tasks::Split::valid ? data.valid
                                                                     : data.train;
  if (list.empty())
    throw Error("evaluate: --split: expected a split with examples, or --data FILE, got " + split_name(a) +
                ", which has none");
  return std::move(list);
}

// A question and its answer, as texts.
struct Answer {
  std::string source, reference, text;  // the reference is the nearest one
  double score = 0;
  std::int64_t edits = 0;

  bool right() const { return edits == 0; }
};

std::vector<Answer> answers_of(const tasks::SequenceRunConfig& config, std::span<const tasks::References> asked,
                               std::span<const training::Hypothesis> answers) {
  const tasks::Vocabulary target(config.target_symbols);
  const training::Canonical canonical = tasks::canonical(config);
  std::vector<Answer> list;
  for (std::size_t n = 0; n < asked.size(); ++n) {
    Answer answer;
    answer.source = config.data.join_source(asked[n].source);
    answer.text = config.data.join_target(target.decode(answers[n].tokens));
    answer.score = answers[n].score;
    answer.edits = std::numeric_limits<std::int64_t>::max();
    const std::vector<int> tokens = canonical ? canonical(answers[n].tokens) : answers[n].tokens;
    for (const std::vector<std::string>& one : asked[n].targets) {
      const std::int64_t edits = training::edit_distance(tokens, target.encode(one));
      if (edits >= answer.edits) continue;
      answer.edits = edits;
      answer.reference = config.data.join_target(one);
    }
    list.push_back(std::move(answer));
  }
  return list;
}

// The answered ones: all, unless Ctrl-C came first.
std::vector<tasks::References> answered(const std::vector<tasks::References>& all, const training::Validation& done) {
  std::vector<tasks::References> list;
  for (const std::size_t n : done.answered) list.push_back(all[n]);
  return list;
}

training::TextScores text_scores(const tasks::SequenceRunConfig& config, std::span<const tasks::References> asked,
                                 std::span<const Answer> answers) {
  training::TextScores scores;
  for (std::size_t n = 0; n < asked.size(); ++n) {
    std::vector<std::string> references;
    for (const std::vector<std::string>& one : asked[n].targets) references.push_back(config.data.join_target(one));
    scores.add(answers[n].text, references);
  }
  return scores;
}

void write_predictions(const std::string& path, std::span<const Answer> answers) {
  std::string text = "source\treference\tanswer\tscore\tright\n";
  for (const Answer& one : answers)
    text += one.source + "\t" + one.reference + "\t" + one.text + "\t" + format_number(one.score) + "\t" +
            (one.right() ? "yes" : "no") + "\n";
  write_file(path, text);
}

// Wrong answers by distance from their references, largest first; then by score.
std::vector<Answer> worst_of(std::span<const Answer> answers, std::size_t count) {
  std::vector<Answer> wrong;
  std::copy_if(answers.begin(), answers.end(), std::back_inserter(wrong),
               [](const Answer& one) { return !one.right(); });
  std::stable_sort(wrong.begin(), wrong.end(), [](const Answer& one, const Answer& other) {
    return one.edits != other.edits ? one.edits > other.edits : one.score > other.score;
  });
  if (wrong.size() > count) wrong.resize(count);
  return wrong;
}

// Writes the run's examples as files, so that other programs can train and test on them.
void write_split(const std::string& directory, tasks::SequenceRunConfig& config) {
  const tasks::TaskData data = tasks::load_data(config.data);
  StagedFiles files;
  files.make_directory(directory);
  const auto add = [&](const char* name, const std::vector<tasks::Example>& examples) {
    std::string text;
    for (const tasks::Example& one : examples)
      text += config.data.join_source(one.source) + "\t" + config.data.join_target(one.target) + "\n";
    files.add(std::filesystem::path(directory) / name, text);
  };
  add("train.tsv", data.train);
  add("valid.tsv", data.valid);
  add("test.tsv", data.test);
  files.commit();
  std::cerr << "wrote " << data.train.size() << ", " << data.valid.size() << " and " << data.test.size() << " lines to "
            << one_line(directory) << "/{train,valid,test}.tsv\n";
}

Json by_length(std::span<const training::Question> all, const auto& score,
               std::vector<std::vector<std::string>>& table) {
  std::map<std::size_t, std::vector<training::Question>> groups;
  for (const training::Question& q : all) groups[q.source.size()].push_back(q);
  Json rows = Json::array();
  for (const auto& [length, group] : groups) {
    const training::Validation v = score(group);
    if (Interrupt::asked()) break;
    Json& row = rows.emplace_back(Json{{"length", length}});
    row.update(scores_json(named(v)));
    table.push_back({std::to_string(length), std::to_string(group.size()), score_text({"", v.scores.exact_match()}),
                     score_text({"", v.scores.symbol_error_rate()})});
  }
  return rows;
}

void evaluate(const EvaluateArguments& a) {
  const Interrupt interrupt;
  if (!is_sequence_run(a.run)) return evaluate_other(a);
  require_effect(a);
  const tasks::EnsembleRun runs = tasks::load_ensemble(run_paths(a.run, a.ensemble));
  const models::Ensemble models = runs.models();
  tasks::SequenceRunConfig config = runs.config();
  if (!a.write_split.empty()) check_output_directory("evaluate: --write-split", a.write_split);
  if (!a.predictions.empty()) check_output_file("evaluate: --predictions", a.predictions);
  const bool table_is_output = is_standard_output(a.predictions);
  check_standard_output("evaluate", {{"--json", a.json}, {"--predictions " + a.predictions, table_is_output}});
  if (!a.write_split.empty()) return write_split(a.write_split, config);
  training::SearchOptions search;
  if (!a.beam.empty()) search.beam = static_cast<int>(parse_within("evaluate: --beam", a.beam, 1, 1000));
  if (!a.length_penalty.empty())
    search.length_penalty = parse_number("evaluate: --length-penalty", a.length_penalty, "a number");
  const std::int64_t worst = a.worst.empty() ? 0 : parse_within("evaluate: --worst", a.worst, 1, 1'000'000);
  const int threads = a.threads.empty() ? default_threads() : parse_threads("evaluate: --threads", a.threads);
  const std::vector<tasks::Example> examples = examples_of(a, config);
  if (const std::int64_t skipped = config.data.skipped_lines; skipped > 0)
    std::cerr << "rapt: evaluate: skipped " << counted(skipped, "line") << " of more than "
              << counted(config.data.longest, "token") << std::endl;
  const std::vector<training::Question> all = tasks::questions(config, examples);
  const auto score = [&](std::span<const training::Question> questions) {
    return training::validate(models, questions, search, threads, tasks::canonical(config), Interrupt::asked);
  };
  const training::Validation validation = score(all);
  if (validation.answered.empty()) end_where_stopped("nothing was scored");
  const std::vector<tasks::References> asked = answered(tasks::group_by_source(examples), validation);
  const std::vector<Answer> answers = answers_of(config, asked, validation.answers);
  training::Scores total = named(validation);
  require_finite(a.run, total);
  const training::TextScores texts = text_scores(config, asked, answers);
  total.list.push_back({"BLEU", texts.bleu()});
  total.list.push_back({"chrF", texts.chrf()});
  if (!a.predictions.empty()) write_predictions(a.predictions, answers);
  Json result{{"run", a.run}, {"beam", search.beam}};
  if (!a.ensemble.empty()) result["ensemble"] = a.ensemble;
  result.update(scores_json(total));
  std::vector<std::vector<std::string>> lengths{{"source length", "sequences", "exact match", "symbol error"}};
  if (a.by_length) result["by_length"] = by_length(all, score, lengths);
  if (Interrupt::asked()) result["stopped"] = true;
  std::vector<std::vector<std::string>> mistakes{{"edits", "score", "source", "reference", "answer"}};
  for (const Answer& one : worst_of(answers, static_cast<std::size_t>(worst))) {
    mistakes.push_back({std::to_string(one.edits), format_number(one.score), one.source, one.reference, one.text});
    result["worst"].push_back({{"source", one.source},
                               {"reference", one.reference},
                               {"answer", one.text},
                               {"score", one.score},
                               {"edits", one.edits}});
  }
  if (a.json) {
    std::cout << result.dump(2) << std::endl;
  } else {
    // The table of predictions is meant for programs.
    std::ostream& out = table_is_output ? std::cerr : std::cout;
    out << scores_line(total) << "\n";
    if (a.by_length) out << format_table(lengths);
    if (worst > 0) out << (mistakes.size() > 1 ? format_table(mistakes) : "There are no wrong answers.\n");
  }
  end_where_stopped("the scores are of " + std::to_string(asked.size()) + " of " + counted(all.size(), "source") +
                    ", the shortest ones");
}

}  // namespace

void add_evaluate(CLI::App& app) {
  auto a = std::make_shared<EvaluateArguments>();
  CLI::App* verb = app.add_subcommand("evaluate", "Score a trained model on held-out data");
  verb->footer(kEvaluateFooter);
  const auto option = [&](const char* name, std::string& to, const char* type, const std::string& help) {
    return verb->add_option(name, to, help)->type_name(type)->check(value_given());
  };
  const training::SearchOptions search;
  option("RUN", a->run, "", "The directory of a run")->required();
  option("--data", a->data, "FILE", "Lines of source TAB target [the run's own examples]");
  option("--split", a->split, "test|valid|train", "Which of the run's own examples [" + std::string(kUsualSplit) + "]");
  option("--beam", a->beam, "N", "Hypotheses kept while searching; 1: greedy [" + std::to_string(search.beam) + "]");
  option("--length-penalty", a->length_penalty, "X",
         "Divide scores by ((5 + length)/6)^X [" + format_number(search.length_penalty) + "]");
  add_ensemble(*verb, a->ensemble);
  verb->add_flag("--by-length", a->by_length, "Also print a line for each source length");
  option("--predictions", a->predictions, "FILE.tsv", "Write source, reference, answer, score and right as a table");
  option("--worst", a->worst, "N", "Also print the N worst answers");
  option("--write-split", a->write_split, "DIR",
         "Write the run's own examples to DIR/train.tsv, valid.tsv and test.tsv, and nothing else");
  option("--threads", a->threads, "N", "Threads; the result does not depend on them [all processors]");
  verb->add_flag("--json", a->json, "Print the result as JSON");
  verb->callback([a] { evaluate(*a); });
}

}  // namespace rapt::cli
